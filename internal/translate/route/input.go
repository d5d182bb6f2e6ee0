package route

import (
	"cmp"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// VirtualHostInput is all that one virtual host depends on. It is comparable: it is the memo's key.
type VirtualHostInput struct {
	// Domains are the Host headers that the virtual host takes, in order.
	Domains *model.List[string]
	// Routes are tried in order, those of one owner in a row. What only a class of proxies decides
	// (source labels, gateways, ports) was decided before.
	Routes *model.List[RouteRef]
	// Default is where requests go that no route matched; the zero value sends nothing anywhere
	// (404).
	Default Target
	// Facts are what routes need to know of the destinations and mirrors that they name, and of
	// Default under its port; sorted by host, port and subset (CompareFacts).
	Facts *model.List[DestinationFact]
	// Retries is the mesh's default policy, canonical.
	Retries *model.Retries
	// Port is the service's or the Gateway server's port that was called: of redirects that keep
	// the port, of trace operations, and of destinations that no fact resolves.
	Port uint16
	// NoAttemptCount sends no x-envoy-attempt-count. ForwardedHost tells the host before a rewrite.
	NoAttemptCount, ForwardedHost bool
	// GRPCWeb translates gRPC-Web to gRPC and back; the listener has the filter.
	GRPCWeb bool
	// DynamicDNS looks hosts of requests up, for destinations of resolution DYNAMIC_DNS; the
	// listener has the filter. A Host header with another port than Port is refused, since the
	// proxy would connect to that port.
	DynamicDNS bool
	// RequireTLS answers all requests with a redirect to https (a Gateway server's httpsRedirect).
	RequireTLS bool
	// SecurePort is where the Gateway has HTTPS for the host; 0 for the default port of https.
	SecurePort uint16
	// Strangers are the callers of a gateway: what a closed route answers names no field to them.
	Strangers bool
	// Misdirected answers all requests with 421, so that clients ask again over another connection.
	Misdirected bool
}

// RouteRef is one route with one of its matches, nil for a route without conditions: what becomes
// one Envoy route.
type RouteRef struct {
	// Owner is the VirtualService, for the route's metadata, which tools show, and its trace
	// operation.
	Owner source.Key
	Route *model.HTTPRoute
	Match *model.HTTPMatch
}

// Target is a cluster by what its name is made of: "outbound|<port>|<subset>|<host>".
type Target struct {
	Host   model.Host
	Port   uint16
	Subset string
}

// DestinationFact is what a route must know of one destination.
type DestinationFact struct {
	Host   model.Host
	Port   uint16 // as the route gives it, 0 when it gives none
	Subset string
	// PortName is the port's name, as the route gives it in the place of a number.
	PortName string
	// Resolved is the port to use: Port, or the service's only port, or the port that was called.
	Resolved uint16
	// ServedBy is the host whose cluster it is, where Host is another name of it; else it is empty.
	ServedBy model.Host
	// Hash is the hash policy of the destination's load balancer, canonical; nil unless it hashes.
	Hash *model.HashPolicy
	// Session is that of the destination's service, canonical; nil for none.
	Session *model.Session
}

// FallbackInput is the virtual host "*" of a sidecar's route table.
type FallbackInput struct {
	To             string // the cluster that it goes to; empty if it is refused
	NoAttemptCount bool
	DynamicDNS     bool // looks hosts up, as in VirtualHostInput, at whatever port they name
}

// TableInput is a RouteConfiguration without its virtual hosts.
type TableInput struct {
	Name string
	// AnyPort takes a Host header whatever port it names, so that domains are without ports: in
	// tables that belong to one port. In others ("http_proxy") domains name their ports.
	AnyPort bool
}

// CompareFacts is the order of VirtualHostInput.Facts: what a destination is looked up by.
func CompareFacts(a, b DestinationFact) int {
	return cmp.Or(
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Subset, b.Subset),
		cmp.Compare(a.PortName, b.PortName),
	)
}
