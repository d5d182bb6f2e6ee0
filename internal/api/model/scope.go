package model

import (
	"slices"
	"time"
)

// Gateway opens ports on gateway workloads.
type Gateway struct {
	Meta
	Selector Labels
	Servers  []GatewayServer
}

// Credentials are those that the servers name, each once, sorted; not those of broken ones.
func (g *Gateway) Credentials() []string {
	var names []string
	for i := range g.Servers {
		if g.Servers[i].Broken == "" {
			names = append(names, g.Servers[i].TLS.Names()...)
		}
	}
	return distinct(names)
}

// ForwardsAny tells that some server hands connections of the mesh on by the destinations that they name.
func (g *Gateway) ForwardsAny() bool {
	return slices.ContainsFunc(g.Servers, func(s GatewayServer) bool { return s.Forwards() })
}

// Forwards tells that the server hands connections of the mesh on by the destinations that they name.
func (s *GatewayServer) Forwards() bool {
	return s.Broken == "" && s.TLS != nil && s.TLS.Mode == ServerAutoPassthrough
}

// GatewayServer is one port of a Gateway and the hosts it takes.
type GatewayServer struct {
	Name     string
	Port     uint16
	PortName string // with TLS: it names the route table
	// Protocol is what the proxy sees: inside of TLS where that ends at the proxy, TLS itself where it passes through.
	Protocol Protocol
	Hosts    []ScopedHost
	Redirect bool // tls.httpsRedirect
	// TLS is nil for a server of plaintext.
	TLS *ServerTLS
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
	Name     string // of the port, for people
	Port     uint16
	Protocol Protocol
	// EndpointAddress is where the process listens: OwnApp, OwnPod, or a unix path. Empty, it is where connections go, or
	// without interception OwnApp.
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
	// AutoTLS is mutual TLS among workloads that can (enableAutoMtls). Unlike Istio's it is off unless the configuration turns it on.
	AutoTLS bool
	// TrustDomain is that of the workloads' identities, and TrustDomainAliases are others that mean the same ones.
	TrustDomain        string
	TrustDomainAliases []string
	// Default visibility of objects that do not say (defaultServiceExportTo, …).
	ServiceExport, VirtualServiceExport, DestinationRuleExport Exports
	AccessLogFile                                              string // "" for none
	IdleTimeout                                                time.Duration
	// Locality is in force where neither a DestinationRule nor the Service says anything; nil for none.
	Locality *LocalityLB
	Ingress  IngressConfig
}

// IngressMode is which Ingresses are for the mesh's gateways (ingressControllerMode).
type IngressMode uint8

const (
	// IngressOfClass are those that say so. It is the default.
	IngressOfClass IngressMode = iota
	// IngressAll are those, too, that do not say.
	IngressAll
	// IngressOff are none.
	IngressOff
)

// IngressConfig is how Ingresses of Kubernetes are read.
type IngressConfig struct {
	Mode     IngressMode
	Class    string // of the annotation kubernetes.io/ingress.class
	Selector string // of the gateway's workloads: the value of their label "istio"
	Service  string // that the gateway is reached by; its addresses stand in the status of Ingresses
	// Classes are the IngressClasses of Istio's controller, sorted: what there is of them, not of the configuration.
	Classes []string
}

// IngressClass is a class of Ingresses that are for the mesh's gateways.
type IngressClass struct{ Meta }

// DefaultMesh is the configuration of a mesh that configures nothing.
func DefaultMesh() MeshConfig {
	return MeshConfig{
		RootNamespace:         "istio-system",
		Domain:                "cluster.local",
		TrustDomain:           "cluster.local",
		ConnectTimeout:        10 * time.Second,
		Retries:               DefaultRetries(),
		ServiceExport:         Exports{All: true},
		VirtualServiceExport:  Exports{All: true},
		DestinationRuleExport: Exports{All: true},
		Locality:              &LocalityLB{},
		Ingress:               IngressConfig{Class: "istio", Selector: "ingressgateway", Service: "istio-ingressgateway"},
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
