package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Gateway opens ports on gateway workloads.
type Gateway struct {
	Meta
	Selector Labels
	Servers  []GatewayServer
	// Workloads is the only namespace whose workloads serve it; "" for all. It is set for a
	// Gateway of the Gateway API. So is AlsoSelector, for workloads that Selector does not select.
	Workloads    string
	AlsoSelector Labels
	// Presents is the credential with the certificate that the workloads present to servers whose
	// owners demand TLS; empty for none. One that does not exist closes these.
	Presents string
}

// Credentials returns the names of the credentials of the servers that are not broken, and of the
// one that it presents, each once, sorted.
func (g *Gateway) Credentials() []string {
	var names []string
	if g.Presents != "" {
		names = append(names, g.Presents)
	}
	for i := range g.Servers {
		if g.Servers[i].Broken == "" {
			names = append(names, g.Servers[i].TLS.Names()...)
		}
	}
	return SortedDistinct(names)
}

// IsOfDeployment reports whether it is a listener for the workloads that are deployed for a Gateway
// of the Gateway API: those with its name, in its namespace. Workloads of a Service are a user's
// own.
func (g *Gateway) IsOfDeployment() bool { return g.Workloads != "" && !g.AlsoSelector.IsEmpty() }

// ForwardsAny reports whether some server Forwards.
func (g *Gateway) ForwardsAny() bool {
	return slices.ContainsFunc(g.Servers, func(s GatewayServer) bool { return s.Forwards() })
}

// ServerField returns the field, of the object that users wrote, in which a part of a server
// stands: "hosts", "port" or "tls". An Ingress lists its servers with TLS alone.
func (g *Gateway) ServerField(server int, part string) string {
	switch {
	case g.Kind == kinds.KubernetesGateway:
		return "spec.listeners[" + strconv.Quote(g.Servers[server].Name) + "]"
	case g.Kind != kinds.Ingress:
		return fmt.Sprintf("spec.servers[%d].%s", server, part)
	case g.Servers[server].TLS == nil:
		return "spec.rules"
	case part == "hosts":
		return fmt.Sprintf("spec.tls[%d].hosts", server)
	}
	return fmt.Sprintf("spec.tls[%d]", server)
}

// Forwards reports whether the server forwards connections of the mesh by the destination in their
// SNI.
func (s *GatewayServer) Forwards() bool {
	return s.Broken == "" && s.TLS != nil && s.TLS.Mode == ServerAutoPassthrough
}

// HasTLS reports whether the server's connections come in TLS, whoever ends it.
func (s *GatewayServer) HasTLS() bool { return s.TLS != nil || s.Protocol == TLS }

// GatewayServer is one port of a Gateway and the hosts it takes.
type GatewayServer struct {
	Name string
	Port uint16
	// Bind is the address of the listener: an IP, or "unix://" and a path with port 0; empty for
	// all addresses of the workload.
	Bind     string
	PortName string // with TLS: it names the route table
	// Protocol is what the proxy sees: the protocol inside TLS if the proxy terminates it, else
	// TLS.
	Protocol Protocol
	Hosts    []ScopedHost
	// Misdirected are the hosts of other servers of the port, sorted, whose requests may come here
	// because clients use a connection for all hosts of its certificate: they get 421.
	Misdirected []Host
	Redirect    bool // tls.httpsRedirect
	// TLS is nil for a plaintext server.
	TLS *ServerTLS
	// Broken says why the server stays closed; "" if it does not.
	Broken string
}

// ScopedHost is "namespace/host". Namespace is "*" for any and "~" for none. "." is resolved to the
// object's own namespace. Only in a Sidecar of the root namespace without a selector it stays:
// there it is the namespace of the proxy.
type ScopedHost struct {
	Namespace string
	Host      Host
}

// Covers reports whether the pair selects a host of a namespace.
func (h ScopedHost) Covers(namespace string, host Host) bool {
	return (h.Namespace == "*" || h.Namespace == namespace) && h.Host.Covers(host)
}

// Overlaps reports whether the pair selects some host of a namespace that a pattern covers too.
func (h ScopedHost) Overlaps(namespace string, pattern Host) bool {
	return (h.Namespace == "*" || h.Namespace == namespace) && h.Host.Overlaps(pattern)
}

// Sidecar limits what proxies of a namespace see.
type Sidecar struct {
	Meta
	Selector Labels // empty: the whole namespace
	Ingress  []IngressListener
	// IngressClosed is set if ingress listeners were given and none of them is usable. No inbound
	// port is opened then, not even those of the services.
	IngressClosed bool
	Egress        []EgressListener // empty: everything visible
	Outbound      *OutboundPolicy  // nil: the mesh's
	// Pool is for connections to the workload's process at ports without a pool of their own; nil
	// for none.
	Pool *ConnectionPool
}

// EgressListener is a part of what proxies see: the services that some host covers and no hidden
// one. Routes are seen for all hosts, and so is what they lead to, as in Istio.
//
// With a port or a Unix socket it is a listener of its own. Its hosts are called through it alone,
// and at its port no other listener of the Sidecar shows hosts.
type EgressListener struct {
	Hosts  []ScopedHost
	Hidden []ScopedHost // sorted, each once
	// Port is where the hosts are called, and the one of their ports that is called; 0 for all
	// ports that no listener of the Sidecar has, and for a Unix socket.
	Port uint16
	// Requests says that a listener of its own takes HTTP; else it takes bytes.
	Requests bool
	// AllPorts says that requests at Port name the host and one of all its ports (HTTP_PROXY).
	AllPorts bool
	// Bind is the address of a listener of its own: an IP, or UnixPrefix and a path; empty for the
	// loopback address, and for all addresses where connections are redirected.
	Bind string
	// OwnPort says that the listener has its port even where connections are redirected
	// (captureMode NONE).
	OwnPort bool
}

// IsOwn reports whether it is a listener of its own.
func (l *EgressListener) IsOwn() bool { return l.Port != 0 || strings.HasPrefix(l.Bind, UnixPrefix) }

// NamesPorts reports whether requests name one of all ports of a host.
func (l *EgressListener) NamesPorts() bool { return l.AllPorts || l.Port == 0 }

// IsWhere reports whether two listeners of their own cannot both be: they have one port, or socket.
func (l *EgressListener) IsWhere(o *EgressListener) bool {
	return l.IsOwn() && o.IsOwn() && l.Port == o.Port && (l.Port != 0 || l.Bind == o.Bind)
}

// OwnListeners returns the egress listeners that are listeners of their own: of a port or a socket
// the first.
func (s *Sidecar) OwnListeners() []*EgressListener {
	var own []*EgressListener
	for i := range s.Egress {
		if l := &s.Egress[i]; l.IsOwn() && !slices.ContainsFunc(own, l.IsWhere) {
			own = append(own, l)
		}
	}
	return own
}

// IngressListener is an inbound port. It replaces those of the services.
type IngressListener struct {
	Name     string // of the port, for people
	Port     uint16
	Protocol Protocol
	// EndpointAddress is where the process listens: OwnApp, OwnPod, or a Unix path. If it is empty
	// it is the address that was called, or OwnApp without interception.
	EndpointAddress string
	EndpointPort    uint16
	Pool            *ConnectionPool // for connections to the process; nil leaves the Sidecar's
	// Bind is the address of a listener of its own, an IP; empty for the workload's address.
	// OwnPort is set if there is such a listener even where calls are redirected (captureMode
	// NONE); else Bind means nothing there.
	Bind    string
	OwnPort bool
	// TLS is how the listener ends TLS of clients outside of the mesh, with certificates from
	// files; nil for none. Protocol is what is inside.
	TLS *ServerTLS
}

// OutboundPolicy says what happens to traffic for hosts that the proxy does not know.
type OutboundPolicy struct {
	RegistryOnly bool
	// DynamicDNS sends requests to what the host that they name resolves to, by the proxy's own
	// look-up (ALLOW_ANY_DYNAMIC_DNS); what is no request goes where it was going.
	DynamicDNS bool
	// Proxy is where it goes (egressProxy); the zero value is onward, to where it was going.
	Proxy EgressProxy
}

// EgressProxy is the port of a service, or of a subset of it, that takes traffic for unknown hosts.
type EgressProxy struct {
	Host   Host
	Port   uint16
	Subset string
}

// MeshConfig is what Lateen uses of Istio's mesh configuration (ConfigMap "istio", key "mesh").
type MeshConfig struct {
	RootNamespace  string
	Domain         string // "cluster.local"
	Outbound       OutboundPolicy
	ConnectTimeout time.Duration
	// DNSRefresh is how often names are looked up whose answer has no TTL, or that have none
	// (dnsRefreshRate); more than a millisecond.
	DNSRefresh    time.Duration
	Retries       *Retries // default HTTP retry policy; never nil
	ProxyHTTPPort uint16   // 0: no HTTP proxy port unless the proxy asks for one
	// UpgradeHTTP2 makes workloads call ports of protocol HTTP in HTTP/2, where no DestinationRule
	// says otherwise (h2UpgradePolicy).
	UpgradeHTTP2 bool
	// Clusters is what holds for all clusters where nothing else is said; nil for nothing.
	Clusters *ClusterDefaults
	// InboundStatName and OutboundStatName are by which names clusters of the workload's own ports,
	// and those of what it calls, stand in statistics (inboundClusterStatName, …).
	InboundStatName, OutboundStatName StatPattern
	// DetectionTimeout is how long proxies wait for the bytes that tell the protocol of a port
	// which does not say it (protocolDetectionTimeout); 0 is for ever.
	DetectionTimeout time.Duration
	// AutoTLS makes workloads call those that take mutual TLS of the mesh in it (enableAutoMtls).
	AutoTLS bool
	// MeshTLS limits mutual TLS of the mesh (meshMTLS), and TLSDefaults all other TLS
	// (tlsDefaults); nil for Envoy's limits.
	MeshTLS, TLSDefaults *TLSParams
	// TrustDomain is that of the workloads' identities. TrustDomainAliases are equivalent to it.
	TrustDomain        string
	TrustDomainAliases []string
	// CACertificates are the roots of signers that sign for workloads (caCertificates). They count
	// where the certificate authority is elsewhere.
	CACertificates []CACertificate
	// PathNormalization is what happens to paths of requests first.
	PathNormalization PathNormalization
	// ExtAuthz are the external authorizers that policies may name, canonical.
	ExtAuthz []*ExtAuthz
	// Default visibility of objects that do not say (defaultServiceExportTo, …).
	ServiceExport, VirtualServiceExport, DestinationRuleExport Exports
	// AccessLogs are where proxies log requests and connections while no Telemetry says so, each
	// canonical; LegacyLogs are those of accessLogFile and enableEnvoyAccessLogService among them,
	// or beside DefaultLogs. LogProviders are all that Telemetries may name, by name; DefaultLogs
	// are those that one without providers means.
	AccessLogs, LegacyLogs    []*AccessLog
	LogProviders, DefaultLogs []LogProvider
	// Tracing is how calls are traced while no Telemetry says so. Tracers are the providers that
	// Telemetries may name. Tracing.Tracer is the one that a Telemetry without providers means,
	// unless it is that of defaultConfig (LegacyTracer).
	Tracing      Tracing
	Tracers      []*Tracer // canonical
	LegacyTracer bool
	// Metrics makes proxies keep Istio's standard metrics (a provider of Prometheus among
	// defaultProviders.metrics). PrometheusProviders are names that stand for it beside its own.
	Metrics             bool
	PrometheusProviders []string
	IdleTimeout         time.Duration
	// GatewayTopology is that of gateways that state none (defaultConfig.gatewayTopology).
	GatewayTopology GatewayTopology
	// OwnHostsOnly is set if calls go by routes of the caller's namespace, of the root namespace
	// and of the namespace that has the host alone (LATEEN_ROUTES_FOR_HOSTS_OF_OTHERS=false).
	OwnHostsOnly bool
	// Sessions is set if there are persistent sessions (PILOT_ENABLE_PERSISTENT_SESSION_FILTER).
	Sessions bool
	// Headers are those that proxies set of themselves (defaultConfig.proxyHeaders).
	Headers ProxyHeaders
	// Connections are the settings of connections that come to proxies
	// (defaultConfig.connectionSettings), canonical; nil for none.
	Connections *ConnectionSettings
	// NoListenerLog keeps what no filter chain takes out of access logs (disableEnvoyListenerLog).
	NoListenerLog bool
	// LocalhostInbound calls the workload's process at the loopback address, where connections are
	// intercepted (inboundTrafficPolicy LOCALHOST).
	LocalhostInbound bool
	// OutboundPort and InboundPort are where intercepted connections come to proxies
	// (proxyListenPort, proxyInboundListenPort); 0 for Istio's.
	OutboundPort, InboundPort uint16
	// Locality is in force where neither a DestinationRule nor the Service sets one; nil for none.
	Locality *LocalityLB
	Ingress  IngressConfig
}

// CACertificate are roots in PEM, and the signers of Kubernetes whose they are; none stands for
// all.
type CACertificate struct {
	PEM     string
	Signers []string
}

// IngressMode says which Ingresses are for the mesh's gateways (ingressControllerMode).
type IngressMode uint8

const (
	// IngressOfClass takes the Ingresses that name the class. It is the default.
	IngressOfClass IngressMode = iota
	// IngressAll also takes those that name no class.
	IngressAll
	// IngressOff takes none.
	IngressOff
)

// IngressConfig says how Ingresses of Kubernetes are read.
type IngressConfig struct {
	Mode     IngressMode
	Class    string // of the annotation kubernetes.io/ingress.class
	Selector string // of the gateway's workloads: the value of their label "istio"
	Service  string // that the gateway is reached by; its addresses stand in the status of Ingresses
	// Classes are the names of Istio's IngressClasses, sorted. They come from these objects, not
	// from the configuration.
	Classes []string
}

// IngressClass is a class of Ingresses that are for the mesh's gateways.
type IngressClass struct{ Meta }

// DefaultMesh returns the configuration of a mesh that sets nothing.
func DefaultMesh() MeshConfig {
	return MeshConfig{
		RootNamespace:         "istio-system",
		Domain:                "cluster.local",
		AutoTLS:               true,
		Metrics:               true,
		TrustDomain:           "cluster.local",
		ConnectTimeout:        10 * time.Second,
		DNSRefresh:            time.Minute,
		Tracing:               Tracing{Sampling: SamplePercent},
		LogProviders:          []LogProvider{{Name: BuiltinLog, Log: &AccessLog{Path: StandardOutput}}},
		Retries:               DefaultRetries(),
		ServiceExport:         Exports{All: true},
		VirtualServiceExport:  Exports{All: true},
		DestinationRuleExport: Exports{All: true},
		Locality:              &LocalityLB{},
		Ingress: IngressConfig{
			Class:    "istio",
			Selector: "ingressgateway",
			Service:  "istio-ingressgateway",
		},
	}
}

// DefaultRetries returns Istio's retry policy for routes that set none.
func DefaultRetries() *Retries {
	return &Retries{
		Attempts:              2,
		RetryOn:               "connect-failure,refused-stream,unavailable,cancelled",
		IgnorePreviousHosts:   true,
		HostSelectionAttempts: 5,
	}
}
