package model

// Placeholders that stand in a translated SocketAddress for the proxy's own addresses (resource.Overlay), so that proxies which
// differ only in them share one class. They are no valid IP addresses, so a forgotten one is refused by Envoy, never bound.
const (
	// OwnPod is the workload's own address: inbound listeners bind it.
	OwnPod = "@pod"
	// OwnAny4 and OwnAny6 are where a gateway listens: at all of its addresses of a family. In a local mesh, where pods have loopback
	// addresses, all of these would be those of others too: there it is the workload's own address.
	OwnAny4 = "@any-ipv4"
	OwnAny6 = "@any-ipv6"
	// OwnApp is where the workload's process listens: the endpoint of inbound clusters.
	OwnApp = "@app"
	// OwnOutbound is where the proxy takes the workload's own calls: the HTTP proxy and explicit TCP listeners.
	OwnOutbound = "@outbound"
)
