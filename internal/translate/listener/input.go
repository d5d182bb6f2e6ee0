package listener

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/model"
)

// Common is what all listeners of a class share, canonical.
type Common struct {
	AccessLogFile string
	IdleTimeout   time.Duration
	HTTP10        bool
}

// HTTPInput is an outbound HTTP listener: the HTTP proxy port ("127.0.0.1_<port>", route table "http_proxy"), or a service
// port ("0.0.0.0_<port>", route table "<port>").
type HTTPInput struct {
	Name       string
	Bind       string // an IP or a placeholder as model.OwnOutbound
	Port       uint16
	BindToPort bool
	RouteTable string
	// ProxyUnknown adds what lets a plain HTTP proxy reach hosts that the mesh does not know (dynamic forward proxy).
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

// Chain is one filter chain of a TCP listener. A chain without SNI takes what no other does.
type Chain struct {
	Name     string
	SNI      *model.List[string]
	Prefixes *model.List[string] // destination IP prefixes
	Targets  *model.List[WeightedTarget]
	// Closed drops connections: the chain's route is broken.
	Closed bool
}

// WeightedTarget is a cluster with its share of the connections.
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
	Common   *Common
}

// GatewayInput is a gateway's HTTP listener ("0.0.0.0_<port>", route table "http.<port>").
type GatewayInput struct {
	Name       string
	Bind       string
	Port       uint16
	RouteTable string
	Common     *Common
}
