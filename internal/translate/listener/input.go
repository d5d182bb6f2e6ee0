package listener

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Common is what all listeners of a class share, canonical. A nil *Common is the zero value.
type Common struct {
	// AccessLogs are where requests and connections are logged.
	AccessLogs []*model.AccessLog
	// Metrics are those of requests and connections.
	Metrics Metrics
	// Tracing is how requests are traced.
	Tracing model.Tracing
	// IdleTimeout is after how long a connection without requests or bytes is closed; 0 leaves
	// Envoy's default, an hour.
	IdleTimeout time.Duration
	// DetectionTimeout is how long a client may take to send the bytes that tell the protocol;
	// then they count as bytes that are neither TLS nor HTTP. 0 is for ever.
	DetectionTimeout time.Duration
	// NoListenerLog logs nothing of connections that no filter chain takes.
	NoListenerLog bool
	// Connections are the settings of connections that come to the proxy; nil for none.
	Connections *model.ConnectionSettings
	// Sessions has the filter of persistent sessions, which routes configure.
	Sessions bool
	// HTTP10 takes HTTP/1.0 requests too, which Envoy answers with 426 otherwise.
	HTTP10 bool
	// RemoteAddress makes outbound listeners take the address of the workload's connection for the
	// client's, and set x-forwarded-for by it.
	RemoteAddress bool
	// Stack is what listeners for any address listen on.
	Stack model.Stack
	// Topology is what stands in front of a gateway.
	Topology model.GatewayTopology
	// Headers are those that the proxy sets of itself.
	Headers model.ProxyHeaders
	// MeshTLS limits mutual TLS of the mesh, and TLSDefaults other TLS that the proxy ends; nil for
	// Envoy's limits.
	MeshTLS, TLSDefaults *model.TLSParams
	// TrustDomains are those of the identities that may call in mutual TLS of the mesh; empty for
	// any.
	TrustDomains []string
	// Paths is what happens to paths of requests first.
	Paths model.PathNormalization
}

// builder builds one listener, or one chain of it: of what all listeners of the class share, and of
// what this one is.
type builder struct {
	Common

	// authFilters are the filters of the class's policies where they apply; nil for none.
	authFilters *AuthFilters
	// reporter is the side of its calls that the listener is on.
	reporter proxystats.Reporter
	// ofMesh says that the chain is for connections in mutual TLS of the mesh.
	ofMesh bool
	// ofGateway says that the listener is a gateway's.
	ofGateway bool
	// grpcWeb is what the listener does with gRPC-Web.
	grpcWeb grpcWeb
	// dynamicDNS says that the listener looks hosts of requests up for virtual hosts that want it.
	dynamicDNS bool
	// exchange says that the TLS under way may be asked for the exchange of Istio's build.
	exchange bool
}

// HTTPInput is an outbound HTTP listener: the HTTP proxy port ("127.0.0.1_<port>", route table
// "http_proxy"), or one of a Sidecar ("<address>_<port>", route table "<port>").
type HTTPInput struct {
	Name string
	// Bind is an IP, a placeholder as model.OwnOutbound, or model.UnixPrefix and a path; empty for
	// any address.
	Bind       string
	Port       uint16
	BindToPort bool
	RouteTable string
	// ProxyUnknown adds the filter that looks requested hosts up, for clusters which connect to
	// whatever a request names: cluster.PassthroughInput.ForwardProxy and
	// cluster.OutboundInput.ForwardProxy. Without such a cluster it does nothing.
	ProxyUnknown bool
	// DynamicDNS is that of a TCPInput.
	DynamicDNS bool
	Common     *Common
}

// TCPInput is an outbound listener of a port whose bytes are not HTTP, or not all of them.
type TCPInput struct {
	Name       string
	Bind       string // empty for any address
	Port       uint16
	BindToPort bool
	Chains     *model.List[Chain]
	// RouteTable has the connections that look like HTTP in plaintext; the chains have the others.
	// Empty: they have all.
	RouteTable string
	// GRPCWeb says that virtual hosts of RouteTable turn gRPC-Web on.
	GRPCWeb bool
	// DynamicDNS says that virtual hosts of RouteTable look hosts up
	// (route.VirtualHostInput.DynamicDNS).
	DynamicDNS bool
	Common     *Common
}

// Chain is one filter chain of a TCP listener. A chain without SNI and Prefixes takes what no other
// one takes; without such a chain that is closed. Of two chains for the same connections the first
// has them.
type Chain struct {
	Name     string
	SNI      *model.List[string] // names, or wildcards "*.example.com"; with "*" any name, or none
	Prefixes *model.List[string] // destination IP prefixes, or addresses
	Targets  *model.List[WeightedTarget]
	// StatName counts the connections of a chain with one target; empty: the target's name does.
	StatName string
	// Closed drops connections: the chain's route is broken.
	Closed bool
	// IdleTimeout and MaxDuration are the destination's (connectionPool.tcp); 0 leaves Common's and
	// no limit.
	IdleTimeout, MaxDuration time.Duration
	// ForwardPort, unless 0, looks the connection's server name up, for a target that connects to
	// whatever host it is given (cluster.OutboundInput.ForwardProxy of a wildcard,
	// cluster.PassthroughInput.ForwardProxy), at this port.
	ForwardPort uint16
	// DynamicDNS, with ForwardPort, looks names up for a target of resolution DYNAMIC_DNS.
	DynamicDNS bool
	// OfMesh takes connections alone that are in mutual TLS of the mesh, as they say themselves
	// (ALPN); it goes with SNI.
	OfMesh bool
	// Bytes says of the connection, where it is in TLS of the mesh, that it carries bytes (ALPN):
	// its target is a port that does not say what it speaks, which is called for requests else
	// (cluster.OutboundInput.AutoTLS).
	Bytes bool
	// HashSource keeps a client at one endpoint: the destination's consistent hash is by source IP.
	HashSource bool
	// Tunnel sends connections through the target, a proxy, by requests of HTTP; "" for none.
	Tunnel Tunnel
}

// Tunnel is where a proxy is to connect to, and by which method it is asked.
type Tunnel struct {
	Target string // host:port
	Post   bool
}

// WeightedTarget is a cluster with its share of the connections. One of weight 0 gets none, unless
// it is the only one.
type WeightedTarget struct {
	Cluster string
	Weight  uint32
}

// InboundPort is one of the workload's own ports, which hands on to the cluster "inbound|<port>||".
type InboundPort struct {
	Name     string // "inbound_0.0.0.0_<port>"
	Port     uint16
	Protocol model.Protocol
	Cluster  string
	StatName string // of connections in statistics; empty for the cluster's name
	// TakesTLS takes connections in mutual TLS of the mesh, too, with the certificate that the
	// proxy's agent has.
	TakesTLS bool
	// Refuses answers every request that is not in TLS of the mesh with 403, and closes such
	// connections that are not HTTP. Then any TLS counts as that of the mesh, whatever protocols
	// the client asks for (ALPN): STRICT leaves no other.
	Refuses bool
	// TLS, unless it is nil, is TLS of clients outside of the mesh, which ends here: then nothing
	// else is taken, and TakesTLS is not set. FilesByAgent is that of a ServerChain.
	TLS          *model.ServerTLS
	FilesByAgent bool
}

// InboundInput is a listener on the workload's own address for one of its ports.
type InboundInput struct {
	InboundPort
	Bind        string // model.OwnPod or an IP
	AuthFilters *AuthFilters
	Common      *Common
}

// VirtualInboundInput is the listener "virtualInbound", to which all calls to a workload are
// redirected.
type VirtualInboundInput struct {
	Ports *model.List[InboundPort] // that services or the Sidecar name; no port twice
	// Undeclared are ports that are not among Ports and have a mode of their own
	// (PeerAuthentication.portLevelMtls); Others is for all that are in neither list.
	Undeclared *model.List[UndeclaredPort]
	Others     Undeclared
	Listens    uint16 // where connections come to; 0 for 15006
	// Transparent has the workload see the addresses of its callers (TPROXY).
	Transparent bool
	AuthFilters *AuthFilters
	Common      *Common
}

// Undeclared is how connections are taken to ports that nobody names: they are handed on to where
// they go.
type Undeclared struct {
	// TakesTLS is that of an InboundPort.
	TakesTLS bool
	// Refuses closes connections in plaintext and in TLS that is the workload's own, RefusesTLS
	// those in TLS of the mesh. Where plaintext alone is refused, all TLS is that of the mesh.
	Refuses, RefusesTLS bool
}

// UndeclaredPort is a port that nobody names, with a mode of its own.
type UndeclaredPort struct {
	Port uint16
	Undeclared
}

// VirtualOutboundInput is the listener "virtualOutbound", to which all calls of a workload are
// redirected.
type VirtualOutboundInput struct {
	// To is the cluster of connections to destinations that no other listener is for; empty if
	// these are closed.
	To      string
	Listens uint16 // where connections come to; 0 for 15001
	Common  *Common
}

// GatewayInput is a gateway's listener ("0.0.0.0_<port>", or "<bind>_<port>").
type GatewayInput struct {
	Name       string
	Bind       string // an IP, or "unix://" and a path; empty for all addresses of the workload
	Port       uint16
	RouteTable string // of HTTP in plaintext ("http.<port>"); empty for none
	GRPCWeb    bool   // virtual hosts of RouteTable turn gRPC-Web on
	// Chains are for connections in TLS and for those that are not HTTP. There are none beside a
	// RouteTable.
	Chains      *model.List[ServerChain]
	AuthFilters *AuthFilters
	Common      *Common
}

// ServerChain is a filter chain of a gateway's listener: for some server names, or for all
// connections.
type ServerChain struct {
	// Chain has the server names, and where connections go that are not HTTP.
	Chain
	// RouteTable is that of HTTP ("https.<port>.<port's name>.<gateway>.<namespace>"); empty for
	// connections that are not HTTP.
	RouteTable string
	// TLS is terminated with these settings; nil if it passes through, or there is none.
	TLS *model.ServerTLS
	// FilesByAgent says that the proxy's agent reads the files which TLS names, and serves them
	// over SDS. Without it Envoy reads them, once, and refuses the listener if one is missing.
	FilesByAgent bool
}
