package model

import "time"

// Gateway opens ports on gateway workloads.
type Gateway struct {
	Meta
	Selector Labels
	Servers  []GatewayServer
}

// GatewayServer is one port of a Gateway and the hosts it takes.
type GatewayServer struct {
	Name     string
	Port     uint16
	Protocol Protocol
	Hosts    []ScopedHost
	Redirect bool // tls.httpsRedirect
	// Broken tells why the server stays closed.
	Broken string
}

// ScopedHost is "namespace/host": Namespace is "*" for any, "~" for none. "." was resolved to the object's own, but for a
// Sidecar of the root namespace without a selector, where it is the namespace of the proxy that is asked about.
type ScopedHost struct {
	Namespace string
	Host      Host
}

// Covers tells whether the pair selects a host that namespace offers.
func (h ScopedHost) Covers(namespace string, host Host) bool {
	return (h.Namespace == "*" || h.Namespace == namespace) && h.Host.Covers(host)
}

// Sidecar limits what proxies of a namespace see.
type Sidecar struct {
	Meta
	Selector Labels // empty: the whole namespace
	Ingress  []IngressListener
	// IngressClosed tells that ingress listeners were written down and none of them is usable: no inbound port is opened,
	// not even those of the services.
	IngressClosed bool
	Egress        []EgressListener // empty: everything visible
	Outbound      *OutboundPolicy  // nil: the mesh's
}

// EgressListener is a part of what proxies see.
type EgressListener struct{ Hosts []ScopedHost }

// IngressListener is an inbound port that replaces those of the services.
type IngressListener struct {
	Name     string // of the port, for statistics
	Port     uint16
	Protocol Protocol
	// DefaultEndpoint's address is OwnApp or OwnPod, or a unix path.
	EndpointAddress string
	EndpointPort    uint16
}

// OutboundPolicy is what happens to traffic for hosts that the proxy does not know.
type OutboundPolicy struct {
	RegistryOnly bool
}

// MeshConfig is what Lateen uses of Istio's mesh configuration (ConfigMap "istio", key "mesh").
type MeshConfig struct {
	RootNamespace  string
	Domain         string // "cluster.local"
	Outbound       OutboundPolicy
	ConnectTimeout time.Duration
	Retries        *Retries // default HTTP retry policy; never nil
	ProxyHTTPPort  uint16   // 0: no HTTP proxy port unless the proxy asks for one
	// Default visibility of objects that do not say (defaultServiceExportTo, …).
	ServiceExport, VirtualServiceExport, DestinationRuleExport Exports
	AccessLogFile                                              string // "" for none
	IdleTimeout                                                time.Duration
}

// DefaultMesh is the configuration of a mesh that configures nothing.
func DefaultMesh() MeshConfig {
	return MeshConfig{
		RootNamespace:         "istio-system",
		Domain:                "cluster.local",
		ConnectTimeout:        10 * time.Second,
		Retries:               DefaultRetries(),
		ServiceExport:         Exports{All: true},
		VirtualServiceExport:  Exports{All: true},
		DestinationRuleExport: Exports{All: true},
	}
}

// DefaultRetries is Istio's retry policy for routes that do not say.
func DefaultRetries() *Retries {
	return &Retries{
		Attempts:              2,
		RetryOn:               "connect-failure,refused-stream,unavailable,cancelled",
		IgnorePreviousHosts:   true,
		HostSelectionAttempts: 5,
	}
}
