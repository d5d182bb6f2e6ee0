package model

import (
	"net/netip"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Protocol is how the bytes on a port are interpreted, from the port's name or appProtocol.
type Protocol uint8

// Auto is a port that names none: TCP, unless it turns out to be HTTP.
const (
	Auto Protocol = iota
	HTTP
	HTTP2
	GRPC
	TCP
	TLS
	UDP
	GRPCWeb // gRPC, or what browsers make of it
)

// String returns Istio's name of the protocol.
func (p Protocol) String() string {
	return [...]string{"auto", "HTTP", "HTTP2", "GRPC", "TCP", "TLS", "UDP", "GRPC-Web"}[p]
}

// IsHTTP reports whether requests on the port can be routed by their HTTP properties.
func (p Protocol) IsHTTP() bool { return p == HTTP || p.IsHTTP2() }

// IsHTTP2 reports whether servers on the port speak HTTP/2.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p.IsGRPC() }

// IsGRPC reports whether servers on the port speak gRPC.
func (p Protocol) IsGRPC() bool { return p == GRPC || p == GRPCWeb }

// Resolution says how a service's endpoints become known.
type Resolution uint8

const (
	// EDS endpoints are pushed: Kubernetes services and ServiceEntry STATIC.
	EDS Resolution = iota
	// Passthrough connects to the address that was called: headless services and ServiceEntry NONE.
	Passthrough
	// StrictDNS resolves all addresses of the names: ServiceEntry DNS.
	StrictDNS
	// LogicalDNS uses one address of the name at a time: ServiceEntry DNS_ROUND_ROBIN.
	LogicalDNS
	// DynamicDNS resolves the name that a request or connection is for, below a wildcard host:
	// ServiceEntry DYNAMIC_DNS.
	DynamicDNS
)

// IsByDNS reports whether proxies look endpoints up by themselves.
func (r Resolution) IsByDNS() bool { return r == StrictDNS || r == LogicalDNS }

// Service is a host that can be called: a Kubernetes Service, or one host of a ServiceEntry.
type Service struct {
	Meta
	Host       Host
	Resolution Resolution
	Headless   bool
	// AliasOf is the name that a Service of type ExternalName stands for. It may be the host of
	// another service.
	AliasOf Host
	// External is set if the workloads are outside of the mesh (ServiceEntry MESH_EXTERNAL).
	External  bool
	Addresses []string // virtual IPs, external ones included, or prefixes, sorted; empty for headless services
	// ExternalIPs are those of Addresses that the name does not stand for, sorted: a Service's
	// externalIPs.
	ExternalIPs []string
	// Balanced is set for a Service in a cluster that is to be reached by a load balancer, and
	// Balancers are the addresses and names that this has by now, sorted. Gateways alone show them.
	Balanced  bool
	Balancers []string
	// AutoAddress is set for a host of a ServiceEntry that has no addresses of its own and may have
	// one of the mesh's (mesh/state, autoaddress.go). Callers whose agent answers DNS use it.
	AutoAddress bool
	Ports       []ServicePort
	Selector    Labels // of workloads in the namespace; empty selects none
	ExportTo    Exports
	// NoPortTranslation keeps gateways that the Service selects from binding its target ports in
	// place of its ports.
	NoPortTranslation bool
	// NodeLocal keeps calls on the caller's node (internalTrafficPolicy Local).
	NodeLocal    bool
	Distribution TrafficDistribution
	// Family is the first address family of the Service. With TwoFamilies each of its pods has an
	// address of both, and callers use one (Stack.FamilyFor).
	Family      Family
	TwoFamilies bool
	// Endpoints are those written down in a ServiceEntry, for EDS and StrictDNS/LogicalDNS (then
	// Address is a name).
	Endpoints []Endpoint
	// Session keeps clients at an endpoint, where the mesh has such (MeshConfig.Sessions); nil for
	// none.
	Session *Session
	// SubjectAltNames are the names that a ServiceEntry requires in its endpoints' certificates. Of
	// a Service they are identities that run it beside those of its pods, for TLS of the mesh
	// alone.
	SubjectAltNames []string
	// OwnMachine is set if endpoints of a ServiceEntry lead to the machine of whoever calls them.
	// Gateways, which callers and namespaces share, do not see it.
	OwnMachine bool
}

// UnixPrefix begins addresses that are Unix sockets.
const UnixPrefix = "unix://"

// ServicePort is one port of a Service.
type ServicePort struct {
	Name       string
	Port       uint16
	Protocol   Protocol
	Target     uint16 // 0 when TargetName is set
	TargetName string // a container port's name
}

// TelemetryName is what Istio's telemetry calls the service: the name of a Service, and of a
// ServiceEntry the host.
func (s *Service) TelemetryName() string {
	if s.Kind == kinds.ServiceEntry {
		return string(s.Host)
	}
	return s.Name
}

// VIPs returns the addresses that are one IP each.
func (s *Service) VIPs() []string {
	return slices.DeleteFunc(slices.Clone(s.Addresses), func(a string) bool {
		ip, err := netip.ParseAddr(a)
		return err != nil || ip.IsUnspecified()
	})
}

// HasVIP reports whether there are VIPs, which identify connections to the service.
func (s *Service) HasVIP() bool { return len(s.VIPs()) > 0 }

// MaxAliases is how many names may stand for one another in a row. A row that leads back to itself
// is longer.
const MaxAliases = 8

// IsAlias reports whether it is a Service of type ExternalName: another name, without an address of
// its own.
func (s *Service) IsAlias() bool { return s.Kind == kinds.Service && s.Resolution == StrictDNS }

// IsCalledByPod reports whether a caller picks an endpoint by its address, so that the addresses of
// the endpoints tell connections to the service from others: it is headless, or a ServiceEntry of
// resolution NONE without addresses that selects workloads.
func (s *Service) IsCalledByPod() bool {
	selects := s.Kind == kinds.ServiceEntry && s.Resolution == Passthrough && !s.Selector.IsEmpty()
	return len(s.Addresses) == 0 && !s.AutoAddress && (s.Headless || selects)
}

// Port returns a port by its number.
func (s *Service) Port(number uint16) (ServicePort, bool) {
	i := slices.IndexFunc(s.Ports, func(p ServicePort) bool { return p.Port == number })
	if i < 0 {
		return ServicePort{}, false
	}
	return s.Ports[i], true
}

// TakesTCP reports whether a port of that number takes connections, which UDP has none of.
func (s *Service) TakesTCP(number uint16) bool {
	p, has := s.Port(number)
	return has && p.Protocol != UDP
}

// Exports says which namespaces may see an object (exportTo).
type Exports struct {
	// Own is set when the list held "."; None when it held "~".
	Own, None  bool
	Namespaces []string // sorted; other namespaces by name
	All        bool     // "*", and the default
}

// Visible reports whether a proxy of namespace sees an object of owner.
func (e Exports) Visible(owner, namespace string) bool {
	switch {
	case e.None:
		return false
	case e.All:
		return true
	case e.Own && owner == namespace:
		return true
	}
	return slices.Contains(e.Namespaces, namespace)
}

// Health says whether an endpoint should get requests.
type Health uint8

const (
	// Healthy endpoints get requests.
	Healthy Health = iota
	// Unhealthy endpoints get none, but are known.
	Unhealthy
	// Draining endpoints finish their requests and get no new ones.
	Draining
	// Ending endpoints are Draining ones that only the clients of a Session are to know.
	Ending
)

// Endpoint is one address and port of a service port. It is comparable: it is a translation input.
type Endpoint struct {
	// Address is an IP literal; a DNS name only in StrictDNS and LogicalDNS services; a Unix
	// socket, as "unix:///path", of an EDS ServiceEntry, with Port 0.
	Address  string
	Port     uint16
	Health   Health
	TLS      bool   // callers use mutual TLS of the mesh; mesh/state sets it
	Weight   uint32 // 0 means 1
	PortName string // of the service port that it serves
	Labels   Labels // of the workload: subsets select by them
	Locality Locality
	Workload string // "namespace/name" of the pod, empty if none is known
	Node     string
	Hints    Zones // the zones whose callers it is meant for
	// Other is an address of the pod of the other family, "" if it has none.
	Other string
	// Hostname is the first part of the name of a pod of a headless service, "" if it has none.
	Hostname string
	// Account is the service account of an endpoint that a ServiceEntry lists; "" if it sets none.
	// Those of pods are in their Workloads.
	Account string
}

// IPs returns the addresses of the endpoint, of each family, that are one IP each.
func (e *Endpoint) IPs() []string {
	var found []string
	for _, a := range []string{e.Address, e.Other} {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Zone() == "" && !ip.IsUnspecified() {
			found = append(found, ip.String())
		}
	}
	return found
}

// Locality is where something runs.
type Locality struct{ Region, Zone, Subzone string }

// String returns Istio's form: "region/zone/subzone", without empty tails.
func (l Locality) String() string {
	s := l.Region
	if l.Zone != "" || l.Subzone != "" {
		s += "/" + l.Zone
	}
	if l.Subzone != "" {
		s += "/" + l.Subzone
	}
	return s
}
