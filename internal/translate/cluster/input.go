package cluster

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// OutboundInput is all that one outbound cluster depends on. It is comparable: it is the memo's
// key.
type OutboundInput struct {
	Host     model.Host
	Port     uint16
	Subset   string
	Protocol model.Protocol
	// Resolution may be DynamicDNS for listeners with the filters that look names up
	// (listener.TCPInput.DynamicDNS, listener.Chain.DynamicDNS).
	Resolution model.Resolution
	// ForwardProxy is for Passthrough on proxies that know no original destination: gateways, and
	// sidecars that intercept nothing. The host is looked up instead; of a wildcard, the host that
	// the request names, for which the listener needs the dynamic forward proxy's filter
	// (listener.HTTPInput.ProxyUnknown, listener.Chain.ForwardPort).
	ForwardProxy bool
	// External tells that the host is outside of the mesh.
	External bool
	// Gateway tells a gateway from a sidecar. It is set for ports of protocol Auto alone, as
	// nothing else depends on it.
	Gateway bool
	// Service ("namespace/name" of the Service; of a ServiceEntry "namespace/host") and Rule
	// ("namespace/name" of the DestinationRule) go into the metadata that Istio's telemetry and
	// tools read. Either may be empty.
	Service, Rule string
	// Policy and SubsetPolicy are those of the winning DestinationRule, canonical, with port-level
	// settings still in them.
	Policy, SubsetPolicy *model.TrafficPolicy
	// UpgradeHTTP2 calls endpoints in HTTP/2 where no policy says otherwise: the mesh says so.
	UpgradeHTTP2 bool
	// Backend is the TLS that the Service's owner demands of its callers, canonical; nil for none.
	Backend *model.TrafficPolicy
	// Presents is the credential with the certificate to present where Backend's TLS is in force;
	// empty for none.
	Presents string
	// Secured tells that the credential is there which the policy in force names; false if it names
	// none.
	Secured bool
	// Endpoints are those of StrictDNS and LogicalDNS clusters, of this port and subset, as callers
	// at one place see them; nil for others.
	Endpoints *model.List[LookupGroup]
	// Stack says by which families names are looked up; it is for clusters that do that.
	Stack model.Stack
	// LocalityWeights tells that the localities of endpoints have weights, by which calls are
	// shared out.
	LocalityWeights bool
	// Zones is in place of weights.
	Zones Zones
	// Sessions tells that clients of the service stay with an endpoint, also while it drains.
	Sessions bool
	// AutoTLS is mutual TLS of the mesh to those endpoints that take it, where no policy says what
	// to do. The metadata of endpoints tells which do (endpoint.Input.TLS, Lookup.TLS). A cluster
	// that connects to the address which the caller picked calls all in TLS (ConnectsAsCalled).
	AutoTLS bool
	// Names are those of which a server's certificate must have one, where calls are in TLS and the
	// policy in force demands none itself: of TLS of the mesh, the identities of those who serve.
	// nil demands none.
	Names *model.List[string]
	// TLS limits TLS to the endpoints: mutual TLS of the mesh by MeshConfig.meshMTLS, other TLS by
	// tlsDefaults; nil for Envoy's limits, and for clusters without TLS.
	TLS *model.TLSParams
	// Exchange tells peers of the workload, and hears of theirs, on connections in TLS of the mesh
	// that are not HTTP: the proxy is of Istio's build. It is for ports that may carry bytes.
	Exchange bool
	// Forwarded is for connections of the mesh that a gateway hands on as they are: the cluster has
	// the name that they ask for (ServerName), and adds no TLS to theirs.
	Forwarded bool
	// StatName is by which name the cluster stands in statistics; empty for its own.
	StatName string
	// Defaults hold where no policy says anything; nil for none.
	Defaults *model.ClusterDefaults
	// ConnectTimeout is the mesh's default; 0 leaves Envoy's.
	ConnectTimeout time.Duration
	// DNSRefresh is how often names are looked up whose answer has no TTL; it is for clusters that
	// look names up. 0 leaves Envoy's, of five seconds.
	DNSRefresh time.Duration
	// KeepsCase writes the names of headers in HTTP/1 as they came.
	KeepsCase bool
}

// LookupGroup is endpoints of a locality that proxies look up, of one priority.
type LookupGroup struct {
	Locality model.Locality
	Priority uint32 // 0 is the highest
	Weight   uint32 // 0: unset
	Members  *model.List[Lookup]
}

// Lookup is an endpoint whose address is looked up.
type Lookup struct {
	Address  string // a name or an IP literal
	Port     uint16
	Weight   uint32 // 0 means 1
	Health   model.Health
	Workload string // as in endpoint.Input
	TLS      bool   // the workload takes mesh mTLS
}

// Name returns the name of the cluster.
func (in *OutboundInput) Name() string {
	if in.Forwarded {
		return ServerName(in.Port, in.Subset, in.Host)
	}
	return Name(in.Port, in.Subset, in.Host)
}

// Zones says how proxies share calls among the zones of their region, if they know what there is of
// their own workload (Envoy's local_cluster_name). The zero value leaves it to Envoy's defaults.
type Zones struct {
	Set, Off bool   // Off, with Set: not at all
	Least    uint32 // endpoints that this needs; 0 for Envoy's default
}

// InboundInput is the cluster of one of the workload's own ports, "inbound|<port>||".
type InboundInput struct {
	Port           uint16 // that the proxy takes
	Address        string // of the workload's process: model.OwnApp, model.OwnPod, an IP, or "unix://" and a path
	EndpointPort   uint16 // 0 for a unix path
	Protocol       model.Protocol
	Pool           *model.ConnectionPool // canonical; nil for that of Defaults
	Defaults       *model.ClusterDefaults
	StatName       string // as in OutboundInput
	ConnectTimeout time.Duration
	KeepsCase      bool // of the names of headers in HTTP/1
	// Intercepted calls without an Address go to their original destination. Those to the pod's own
	// address come from an address by which what intercepts calls tells them from the workload's
	// own.
	Intercepted bool
	Stack       model.Stack // of the workload, for calls to its own address
	// Services lead to the port, for the metadata that the filters of Istio's build read; nil for
	// proxies without these.
	Services *model.List[NamedService]
}

// NamedService is a service in the metadata of a cluster, with Host and Service as in
// OutboundInput.
type NamedService struct {
	Host    model.Host
	Service string
}

// PassthroughInput is the cluster for destinations that the mesh does not know.
type PassthroughInput struct {
	// Inbound is for the workload's own ports that no service names, "InboundPassthroughCluster".
	Inbound bool
	// ForwardProxy is for proxies without interception, where no connection has an original
	// destination: the requested host is looked up instead. It goes with
	// listener.HTTPInput.ProxyUnknown.
	ForwardProxy bool
	// DynamicDNS is for requests whose host is looked up where the mesh does not know it,
	// "AllowAnyDynamicDNSCluster". It goes with route.FallbackInput.DynamicDNS.
	DynamicDNS     bool
	Defaults       *model.ClusterDefaults
	ConnectTimeout time.Duration
	KeepsCase      bool        // of the names of headers in HTTP/1
	Stack          model.Stack // of the workload, for Inbound and DynamicDNS
}
