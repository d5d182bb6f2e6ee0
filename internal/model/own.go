package model

// Placeholders that stand in a translated SocketAddress for the proxy's own addresses (view.Own), so that proxies which
// differ only in them share one class. They are no valid IP addresses, so a forgotten one is refused by Envoy, never bound.
const (
	// OwnPod is the workload's own address: inbound listeners and gateways bind it.
	OwnPod = "@pod"
	// OwnApp is where the workload's process listens: the endpoint of inbound clusters.
	OwnApp = "@app"
	// OwnOutbound is where the proxy takes the workload's own calls: the HTTP proxy and explicit TCP listeners.
	OwnOutbound = "@outbound"
)
