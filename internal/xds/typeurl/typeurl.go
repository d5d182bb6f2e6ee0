// Package typeurl owns the type URLs of xDS resources, as they stand in requests and responses. The
// table of what Lateen knows of each type is in xds/resource. Whoever plays a client or a peer
// (testkit, perf) takes the names from here, and nothing else of the product.
//
// It imports nothing.
package typeurl

// The types that Lateen serves.
const (
	Cluster     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	Endpoint    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	LbEndpoint  = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint" // of LEDS collections
	Listener    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	Route       = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	VirtualHost = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	Secret      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	Filter      = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig" // ECDS
	NameTable   = "type.googleapis.com/istio.networking.nds.v1.NameTable"         // of an agent's DNS proxy
)
