package sidecar

import "github.com/lateen-mesh/lateen/internal/xds/typeurl"

// Type is a type of resource that sidecars ask for.
type Type uint8

// The types in the order in which Envoy asks for them.
const (
	Cluster Type = iota
	Endpoint
	Collection // of endpoints: LEDS
	Listener
	Route
	VirtualHost
	Secret
	NameTable // of the agent's DNS proxy
	NumTypes
)

// URL is the type's URL.
func (t Type) URL() string { return types[t].url }

// String is the name of the type's discovery service in short, "CDS".
func (t Type) String() string { return types[t].short }

var types = [NumTypes]struct{ short, url string }{
	Cluster:     {"CDS", typeurl.Cluster},
	Endpoint:    {"EDS", typeurl.Endpoint},
	Collection:  {"LEDS", typeurl.LbEndpoint},
	Listener:    {"LDS", typeurl.Listener},
	Route:       {"RDS", typeurl.Route},
	VirtualHost: {"VHDS", typeurl.VirtualHost},
	Secret:      {"SDS", typeurl.Secret},
	NameTable:   {"NDS", typeurl.NameTable},
}

// Stats are a fleet's counts: gauges of now, and sums since it began.
type Stats struct {
	// Started sidecars have not been stopped. Of them Connected have a stream that was answered, Synced have an answer to all that
	// they asked for on it.
	Started, Connected, Synced int
	// BytesRead and BytesWritten are those of the sockets (with TLS: of what is inside).
	BytesRead, BytesWritten uint64
	// Attempts are connections that were tried, Failures those that could not be established, Refused are streams that ended
	// with a status before any response, Reconnects are streams after a sidecar's first that were answered.
	Attempts, Failures, Refused, Reconnects uint64
	// Late counts waits for endpoints or routes that took longer than the fetch timeout.
	Late uint64
	// Malformed counts connections that were given up because what came over them could not be read.
	Malformed uint64
	Types     [NumTypes]TypeStats
	// Unknown counts responses of types that no sidecar asks for.
	Unknown uint64
}

// TypeStats are counts of one type of resource.
type TypeStats struct {
	// Bytes are those of response messages, RequestBytes those of requests, without framing.
	Bytes, RequestBytes uint64
	// Resources came in Responses, as did the names of Removed ones.
	Requests, Responses, Resources, Removed uint64
	Acks, Nacks                             uint64
	// Reported are versions that sidecars said they had when they connected again.
	Reported uint64
}

// Total sums the types.
func (s Stats) Total() (t TypeStats) {
	for _, of := range s.Types {
		t = t.plus(of)
	}
	return t
}

func (s *Stats) add(o *Stats) {
	s.Connected += o.Connected
	s.Synced += o.Synced
	s.BytesRead += o.BytesRead
	s.BytesWritten += o.BytesWritten
	s.Attempts += o.Attempts
	s.Failures += o.Failures
	s.Refused += o.Refused
	s.Reconnects += o.Reconnects
	s.Late += o.Late
	s.Malformed += o.Malformed
	s.Unknown += o.Unknown
	for t := range s.Types {
		s.Types[t] = s.Types[t].plus(o.Types[t])
	}
}

func (t TypeStats) plus(o TypeStats) TypeStats {
	return TypeStats{
		Bytes: t.Bytes + o.Bytes, RequestBytes: t.RequestBytes + o.RequestBytes, Requests: t.Requests + o.Requests,
		Responses: t.Responses + o.Responses, Resources: t.Resources + o.Resources, Removed: t.Removed + o.Removed,
		Acks: t.Acks + o.Acks, Nacks: t.Nacks + o.Nacks, Reported: t.Reported + o.Reported,
	}
}
