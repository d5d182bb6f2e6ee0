package listener

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/model"
)

// Common is what all listeners of a class share, canonical. A nil *Common is the zero value.
type Common struct {
	// AccessLogFile is where requests and connections are logged, in Istio's default text format; empty for nowhere.
	AccessLogFile string
	// IdleTimeout is after how long a connection without requests or bytes is closed; 0 leaves Envoy's default, an hour.
	IdleTimeout time.Duration
	// HTTP10 takes HTTP/1.0 requests too, which Envoy answers with 426 otherwise.
	HTTP10 bool
}

// HTTPInput is an outbound HTTP listener: the HTTP proxy port ("127.0.0.1_<port>", route table "http_proxy"), or a service
// port ("0.0.0.0_<port>", route table "<port>").
type HTTPInput struct {
	Name       string
	Bind       string // an IP or a placeholder as model.OwnOutbound
	Port       uint16
	BindToPort bool
	RouteTable string
	// ProxyUnknown adds the filter that looks requested hosts up, for clusters which connect to whatever a request names:
	// cluster.PassthroughInput.ForwardProxy and cluster.OutboundInput.ForwardProxy. Without such a cluster it does nothing.
	ProxyUnknown bool
	Common       *Common
}

// TCPInput is an outbound listener of a port whose bytes are not HTTP.
type TCPInput struct {
	Name       string
	Bind       string
	Port       uint16
	BindToPort bool
	Chains     *model.List[Chain]
	Common     *Common
}

// Chain is one filter chain of a TCP listener. A chain without SNI and Prefixes takes what no other does; where there is no
// such chain, that is closed. Of two chains that would take the same connections the first has them.
type Chain struct {
	Name     string
	SNI      *model.List[string] // names, or wildcards "*.example.com"; with "*" any name, or none
	Prefixes *model.List[string] // destination IP prefixes, or addresses
	Targets  *model.List[WeightedTarget]
	// Closed drops connections: the chain's route is broken.
	Closed bool
	// IdleTimeout and MaxDuration are the destination's (connectionPool.tcp); 0 leaves Common's and no limit.
	IdleTimeout, MaxDuration time.Duration
	// ForwardPort, unless 0, looks the connection's server name up, for a target that connects to whatever host it is given
	// (cluster.OutboundInput.ForwardProxy of a wildcard, cluster.PassthroughInput.ForwardProxy), at this port.
	ForwardPort uint16
	// HashSource keeps a client at one endpoint: the destination's consistent hash is by source IP.
	HashSource bool
}

// WeightedTarget is a cluster with its share of the connections; those of weight 0 get none, but for a single one.
type WeightedTarget struct {
	Cluster string
	Weight  uint32
}

// InboundInput is a listener on the workload's own address for one of its ports ("inbound_0.0.0.0_<port>"), which hands
// on to the cluster "inbound|<port>||".
type InboundInput struct {
	Name     string
	Bind     string // model.OwnPod or an IP
	Port     uint16
	Protocol model.Protocol
	Cluster  string
	// StatName is the host of the first service on the port, for the route's name and statistics.
	StatName string
	// Refuses answers every request with 403, and closes connections that are not HTTP.
	Refuses bool
	Common  *Common
}

// GatewayInput is a gateway's HTTP listener ("0.0.0.0_<port>", route table "http.<port>").
type GatewayInput struct {
	Name       string
	Bind       string
	Port       uint16
	RouteTable string
	// Refuses answers every request with 403.
	Refuses bool
	Common  *Common
}
