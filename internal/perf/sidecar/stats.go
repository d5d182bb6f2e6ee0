package sidecar

import "github.com/lateen-mesh/lateen/internal/xds/typeurl"

// Type is a type of resource that sidecars subscribe to.
type Type uint8

// The types in the order of Envoy's subscriptions.
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

// URL returns the type's URL.
func (t Type) URL() string { return types[t].url }

// String returns the short name of the type's discovery service, as "CDS".
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

// Stats are a fleet's counts: present gauges, and sums since its start.
type Stats struct {
	// Started counts sidecars that have not been stopped. Connected counts those whose stream was
	// answered, and Synced those with an answer to everything they asked for on it.
	Started, Connected, Synced int
	// BytesRead and BytesWritten count bytes of the sockets, with TLS the decrypted ones.
	BytesRead, BytesWritten uint64
	// Attempts counts attempts to connect, and Failures those that failed. Refused counts streams
	// that ended with a status before any response. Reconnects counts answered streams after a
	// sidecar's first.
	Attempts, Failures, Refused, Reconnects uint64
	// Late counts waits for endpoints or routes that exceeded the fetch timeout.
	Late uint64
	// Malformed counts connections that were closed because of unreadable input.
	Malformed uint64
	Types     [NumTypes]TypeStats
	// Unknown counts responses of types that no sidecar subscribes to.
	Unknown uint64
}

// TypeStats are the counts of one type.
type TypeStats struct {
	// Bytes counts response messages, and RequestBytes requests, both without framing.
	Bytes, RequestBytes uint64
	// Resources counts resources in responses, and Removed the names of removed ones.
	Requests, Responses, Resources, Removed uint64
	Acks, Nacks                             uint64
	// Reported counts versions that sidecars reported after a reconnect.
	Reported uint64
}

// Total sums over the types.
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
