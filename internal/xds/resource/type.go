package resource

// Type is one xDS resource type that Lateen serves.
type Type uint8

// The types in the order in which they are made: clusters with their endpoints, then what names them. LbEndpoint is a form in which
// endpoints go to clients, see collections.go: no State has a set of it.
const (
	Cluster Type = iota
	Endpoint
	LbEndpoint
	Listener
	Route
	VirtualHost
	Secret
	NumTypes
)

var typeNames = [NumTypes]struct{ short, url string }{
	Cluster:     {"cds", "type.googleapis.com/envoy.config.cluster.v3.Cluster"},
	Endpoint:    {"eds", "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"},
	LbEndpoint:  {"leds", "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"},
	Listener:    {"lds", "type.googleapis.com/envoy.config.listener.v3.Listener"},
	Route:       {"rds", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"},
	VirtualHost: {"vhds", "type.googleapis.com/envoy.config.route.v3.VirtualHost"},
	Secret:      {"sds", "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"},
}

// String is the short name that metrics and tables use: "cds", "eds", …
func (t Type) String() string { return typeNames[t].short }

// URL is the type URL that goes on the wire.
func (t Type) URL() string { return typeNames[t].url }

// Wildcard tells whether a client may ask for all resources of this type without naming them (CDS, LDS and VHDS).
func (t Type) Wildcard() bool { return t == Cluster || t == Listener || t == VirtualHost }

// TypeByURL finds the type of a request; false for one that Lateen does not serve.
func TypeByURL(url string) (Type, bool) {
	for t, n := range typeNames {
		if n.url == url {
			return Type(t), true
		}
	}
	return 0, false
}
