package model

import "math"

// The ports where proxies take redirected connections unless the mesh configuration names others.
const (
	StandardOutboundPort = 15001
	StandardInboundPort  = 15006
)

// IsProxyPort reports whether a port of a Pod is one of those that Istio keeps for its proxy.
func IsProxyPort(port uint16) bool {
	switch port {
	case 15000, StandardOutboundPort, 15002, 15004, StandardInboundPort, 15008, 15009, 15020, 15021, 15053, 15090:
		return true
	}
	return false
}

// ListenPorts returns where proxies take redirected connections, for proxyListenPort and
// proxyInboundListenPort of a MeshConfig. The standard port is in force in place of what is no
// port, of one that something else of a proxy has, and of an inbound port that is the outbound one.
func ListenPorts(outbound, inbound int32) (uint16, uint16) {
	out, in := listenPort(outbound, StandardOutboundPort), listenPort(inbound, StandardInboundPort)
	if in == out {
		in = StandardInboundPort
	}
	return out, in
}

func listenPort(number int32, standard uint16) uint16 {
	if number < 1 || number > math.MaxUint16 || IsProxyPort(uint16(number)) {
		return standard
	}
	return uint16(number)
}
