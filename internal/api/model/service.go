package model

import (
	"net/netip"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Protocol is how the bytes on a port are to be understood, from the port's name or appProtocol.
type Protocol uint8

// Auto is a port that does not say: treated as TCP that may turn out to be HTTP.
const (
	Auto Protocol = iota
	HTTP
	HTTP2
	GRPC
	TCP
	TLS
	UDP
)

// String is Istio's name of the protocol.
func (p Protocol) String() string {
	return [...]string{"auto", "HTTP", "HTTP2", "GRPC", "TCP", "TLS", "UDP"}[p]
}

// IsHTTP tells that requests on the port can be routed by their HTTP properties.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == HTTP2 || p == GRPC }

// Resolution is how a service's endpoints become known.
type Resolution uint8

const (
	// EDS endpoints are pushed: Kubernetes services and ServiceEntry STATIC.
	EDS Resolution = iota
	// Passthrough connects to the address that the caller meant: headless services and ServiceEntry NONE.
	Passthrough
	// StrictDNS resolves all addresses of the names: ServiceEntry DNS.
	StrictDNS
	// LogicalDNS uses one address of the name at a time: ServiceEntry DNS_ROUND_ROBIN.
	LogicalDNS
)

// Service is a host that can be called: a Kubernetes Service, or one host of a ServiceEntry.
type Service struct {
	Meta
	Host       Host
	Resolution Resolution
	Headless   bool
	// External tells that the workloads are outside of the mesh (ServiceEntry MESH_EXTERNAL).
	External  bool
	Addresses []string // virtual IPs, external ones included, or prefixes, sorted; empty for headless services
	Ports     []ServicePort
	Selector  Labels // of workloads in the namespace; empty selects none
	ExportTo  Exports
	// NodeLocal keeps calls on the caller's node (internalTrafficPolicy Local).
	NodeLocal    bool
	Distribution TrafficDistribution
	// Family is the first one of the Service. With TwoFamilies it has each of its pods twice, and callers use those of one (Stack.Calls).
	Family      Family
	TwoFamilies bool
	// Endpoints are those written down in a ServiceEntry, for EDS and StrictDNS/LogicalDNS (then Address is a name).
	Endpoints []Endpoint
	// SubjectAltNames are those that a ServiceEntry demands of the certificates of its endpoints.
	SubjectAltNames []string
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name       string
	Port       uint16
	Protocol   Protocol
	Target     uint16 // 0 when TargetName is set
	TargetName string // a container port's name
}

// VIPs are those of the addresses that are one IP each.
func (s *Service) VIPs() []string {
	return slices.DeleteFunc(slices.Clone(s.Addresses), func(a string) bool {
		ip, err := netip.ParseAddr(a)
		return err != nil || ip.IsUnspecified()
	})
}

// HasVIP tells whether one of the addresses is an IP, by which connections to the service are known.
func (s *Service) HasVIP() bool { return len(s.VIPs()) > 0 }

// IsAlias tells that it is a Service of type ExternalName: another name of something, without an address of its own.
func (s *Service) IsAlias() bool { return s.Kind == kinds.Service && s.Resolution == StrictDNS }

// Port finds a port by its number.
func (s *Service) Port(number uint16) (ServicePort, bool) {
	i := slices.IndexFunc(s.Ports, func(p ServicePort) bool { return p.Port == number })
	if i < 0 {
		return ServicePort{}, false
	}
	return s.Ports[i], true
}

// Exports says which namespaces may see an object (exportTo).
type Exports struct {
	// Own is set when the list held "."; None when it held "~".
	Own, None  bool
	Namespaces []string // sorted; other namespaces by name
	All        bool     // "*", and the default
}

// Visible tells whether a proxy of namespace sees an object of owner.
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

// Health is whether an endpoint should get requests.
type Health uint8

const (
	// Healthy endpoints get requests.
	Healthy Health = iota
	// Unhealthy endpoints get none, but are known.
	Unhealthy
	// Draining endpoints finish what they have and get nothing new.
	Draining
)

// Endpoint is one address and port that serves a service port. It is comparable: it is a translation input.
type Endpoint struct {
	Address  string // an IP literal; a DNS name only in StrictDNS and LogicalDNS services
	Port     uint16
	Health   Health
	Weight   uint32 // 0 means 1
	PortName string // of the service port that it serves
	Labels   Labels // of the workload: subsets select by them
	Locality Locality
	Workload string // "namespace/name" of the pod, empty if none is known
	Node     string
	Hints    Zones // for whose callers it is meant
	// Other is an address of the pod's of the other family, empty if it has none.
	Other string
	// Account is the service account of one that a ServiceEntry lists; empty if it says none. Those of pods are the Workloads'.
	Account string
}

// Locality is where something runs.
type Locality struct{ Region, Zone, Subzone string }

// String is Istio's form: "region/zone/subzone", without empty tails.
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
