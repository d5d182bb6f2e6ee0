package model

// Placeholders in a translated SocketAddress for the proxy's own addresses (resource.Overlay).
// Proxies that differ only in these addresses share one class. Placeholders are no valid IP
// addresses, so Envoy refuses a forgotten one and never binds it.
const (
	// OwnPod is the workload's own address. Inbound listeners bind it.
	OwnPod = "@pod"
	// OwnAny4 and OwnAny6 are where a gateway listens: all of its addresses of a family. In a local
	// mesh, where pods share the loopback interface, it is the workload's own address instead.
	OwnAny4 = "@any-ipv4"
	OwnAny6 = "@any-ipv6"
	// OwnApp is where the workload's process listens. It is the endpoint of inbound clusters.
	OwnApp = "@app"
	// OwnOutbound is where the proxy accepts the workload's calls: the HTTP proxy and explicit TCP
	// listeners.
	OwnOutbound = "@outbound"
)
