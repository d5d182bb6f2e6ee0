package scope

import (
	"regexp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// ProxyType is the role of a proxy, the first part of its node id.
type ProxyType uint8

const (
	// Sidecar runs beside one workload.
	Sidecar ProxyType = iota
	// Router is a gateway.
	Router
)

// CredentialRight is which Secrets a proxy may have. All but none want a proof that the proxy is
// the Pod of its name, and of a gateway, that this Pod is one.
type CredentialRight uint8

const (
	// NoCredentials is none.
	NoCredentials CredentialRight = iota
	// OwnGatewayCredentials are those that the listeners of one Gateway of the Gateway API name:
	// the one that the Pod was deployed for, whose service account it runs as.
	OwnGatewayCredentials
	// AllCredentials are those that any configuration of the proxy names. A gateway has them if its
	// service account may read all Secrets of its namespace.
	AllCredentials
)

// Settings are what translation reads of a proxy's metadata, normalised.
type Settings struct {
	HTTPProxyPort uint16
	HTTP10        bool
	// Metrics says that something beside the proxy makes Istio's standard metrics of its
	// statistics.
	Metrics bool
	// IstioFilters tells that the proxy's Envoy has the filters of Istio's build, which make these
	// metrics themselves.
	IstioFilters bool
	// Intercepted tells that a sidecar's connections are redirected to it, with their original
	// destination; else a workload calls its proxy's ports, and others call the proxy's where the
	// workload's would be.
	Intercepted bool
	// Transparent tells that an intercepted workload sees the addresses of its callers (TPROXY).
	Transparent bool
	// Agent tells that an agent beside the proxy serves it the certificate that it has from the
	// mesh (Istio's SDS, by the cluster "sds-grpc" of the proxy's bootstrap).
	Agent bool
	// Stack is which families of addresses the proxy has.
	Stack model.Stack
	// DNSCapture tells that the workloads resolve names by an agent that has them from the control
	// plane.
	DNSCapture bool
	// Credentials says which Secrets the proxy may have.
	Credentials CredentialRight
	// FiltersApart tells that the proxy takes the filters of requests that policies come to as a
	// resource of their own (ECDS), and not as parts of its listeners.
	FiltersApart bool
	// DynamicDNS tells that a sidecar's Envoy can keep what it looks up from leading to addresses
	// of its own machine. To others hosts of resolution DYNAMIC_DNS are closed.
	DynamicDNS bool
	// AllClusters gives a gateway what it takes to call all services that it may see, not only
	// those that its routes lead to. It is a setting of the control plane.
	AllClusters bool
	// OwnGateways leaves a gateway the Gateways of Istio's API in its own namespace alone. It is a
	// setting of the control plane.
	OwnGateways bool
	// RemoteAddress makes a sidecar take the address of its workload's connection for the
	// client's, and x-forwarded-for from it. It is a setting of the control plane.
	RemoteAddress bool
	// Topology is what a gateway states to stand in front of it; else the mesh configuration says
	// it.
	Topology model.StatedTopology
}

// Proxy is what is known of one proxy, from its Pod record where there is one, else from its node
// metadata.
type Proxy struct {
	Namespace string
	Name      string // of the workload
	Address   string // of the workload; it is no part of the class
	Labels    model.Labels
	Settings  Settings
	Type      ProxyType
	Place     *Place // nil when it is not known; it is no part of the class
	Stating   Stating
}

// Place is where a proxy runs. It decides on the order of some clusters' endpoints alone.
type Place struct {
	Locality model.Locality
	Node     string
}

// PlaceOf returns where a workload runs.
func PlaceOf(snap *state.Snapshot, workload *model.Workload) *Place {
	return &Place{Locality: snap.LocalityOf(workload), Node: workload.Node}
}

// Label returns a label of the proxy, or the part of its place that the key names. It is empty if
// there is none.
func (p *Proxy) Label(key string) string {
	at := p.Place
	if at == nil {
		at = &Place{}
	}
	if v, place := at.Locality.Label(key); place {
		return v
	}
	if key == model.HostnameLabel {
		return at.Node
	}
	v, _ := p.Labels.Get(key)
	return v
}

// Class is what tells apart proxies with different configuration. It is comparable. It holds which
// selectors match, not labels, so labels that nothing selects split no class.
type Class struct {
	Type      ProxyType
	Namespace string
	Settings  Settings
	// Stated is what the proxies' Pods say of them, canonical; nil for nothing.
	Stated *model.Stated
	// Selectors are those of all selectors in the snapshot that match the proxies.
	Selectors *model.List[model.Labels]
	// Inbound are the ports of a sidecar's workload by number, and PortConflicts what services
	// contest of them, in their total order. Which services lead to a port is no part of the class
	// of a stock Envoy: workloads of a namespace that serve the same ports are alike.
	Inbound       *model.List[Inbound]
	PortConflicts *model.List[PortConflict]
	// PortServices are the services that lead to these ports, by port, those of a port in their
	// total order. The filters of Istio's build show them (Settings.IstioFilters), and so do
	// statistics where the mesh says by which names (InboundStatName); it is nil without either.
	PortServices *model.List[PortService]
	// Pools are what rules of the services that lead to these ports say of connections to the
	// workload's process, by port. Ports without such a rule are not in it.
	Pools *model.List[PortPool]
	// Binds are the ports of a gateway's workload that are not those of its services, by number of
	// the latter.
	Binds *model.List[Bind]
	// ProxyMatches are those of patches of its namespace and the root namespace that match the
	// proxies.
	ProxyMatches *model.List[model.ProxyMatch]
}

// Classifier makes classes; it interns their lists, so that equal classes are equal values. It is
// used by one goroutine.
type Classifier struct {
	selectors *model.Interner[model.Labels]
	inbound   *model.Interner[Inbound]
	conflicts *model.Interner[PortConflict]
	services  *model.Interner[PortService]
	pools     *model.Interner[PortPool]
	binds     *model.Interner[Bind]
	matches   *model.Interner[model.ProxyMatch]
	patterns  map[string]*regexp.Regexp // of versions, by their text
	// canonical makes equal pools one pointer.
	canonical *model.Pool[model.ConnectionPool]
}

// NewClassifier makes a classifier.
func NewClassifier() *Classifier {
	return &Classifier{
		selectors: model.NewInterner[model.Labels](),
		inbound:   model.NewInterner[Inbound](),
		conflicts: model.NewInterner[PortConflict](),
		services:  model.NewInterner[PortService](),
		pools:     model.NewInterner[PortPool](),
		canonical: model.NewPool[model.ConnectionPool](),
		binds:     model.NewInterner[Bind](),
		matches:   model.NewInterner[model.ProxyMatch](),
		patterns:  map[string]*regexp.Regexp{},
	}
}

// Classify finds the class of a proxy in a state.
func (c *Classifier) Classify(snap *state.Snapshot, p Proxy) Class {
	class := Class{
		Type: p.Type, Namespace: p.Namespace, Settings: p.Settings,
		Selectors:    c.selectors.List(matching(snap, p.Labels)),
		ProxyMatches: c.proxyMatches(snap, p),
	}
	if p.Type == Router {
		class.Binds = c.binds.List(binds(snap, p))
		return class
	}
	all := targets(snap, p)
	ports, conflicts := inbound(all)
	class.Inbound, class.PortConflicts = c.inbound.List(ports), c.conflicts.List(conflicts)
	class.Pools = c.pools.List(c.portPools(snap, p.Namespace, all))
	if p.Settings.IstioFilters || snap.Mesh.InboundStatName != "" {
		class.PortServices = c.services.List(portServices(snap.Mesh, all))
	}
	return class
}

func matching(snap *state.Snapshot, labels model.Labels) []model.Labels {
	var found []model.Labels
	for s := range snap.SelectorsOf(labels) {
		if len(found) == 0 || found[len(found)-1] != s {
			found = append(found, s)
		}
	}
	return found
}

// Selected reports whether a selector of the snapshot matches the proxies of the class; the empty
// one matches all.
func (c *Class) Selected(selector model.Labels) bool {
	return selector.IsEmpty() || c.Selectors.Contains(selector)
}

// Moves is how a delta may change the classes of proxies. It is computed once for each delta.
type Moves struct {
	delta     *state.Delta
	selectors []model.Labels // that appeared, changed or went away
	matches   []movingMatch  // of patches, that appeared or went away
	// pooled are the services to which changed rules that limit connections may apply, by
	// namespace.
	pooled map[string][]*model.Service
	// deployed are the Gateways of the Gateway API that are deployed by another name than before,
	// so that other proxies have their Secrets.
	deployed []model.ObjectName
}

// MovesOf returns the Moves of a delta.
func MovesOf(d *state.Delta) Moves {
	m := Moves{delta: d, selectors: d.ChangedSelectors()}
	m.addPools()
	m.addProxyMatches()
	for _, p := range d.GatewayAPIStatuses {
		if p.Old.DeploymentName() != p.New.DeploymentName() {
			m.deployed = append(m.deployed, model.ObjectName{Namespace: p.Either().Namespace, Name: p.Either().Name})
		}
	}
	return m
}

// Deployed returns the namespaces of the Gateways that are deployed by another name than before.
func (m Moves) Deployed() []string {
	var namespaces []string
	for _, g := range m.deployed {
		namespaces = append(namespaces, g.Namespace)
	}
	return model.SortedDistinct(namespaces)
}

// MayMoveAny reports whether what changed may match any workload: selectors, and by what patches
// tell proxies apart.
func (m Moves) MayMoveAny() bool { return len(m.selectors)+len(m.matches) > 0 }

// mayServe reports whether a service of a proxy's namespace may lead to its workload (targets).
func (m Moves) mayServe(svc *model.Service, p Proxy) bool {
	if slices.ContainsFunc(svc.Endpoints, func(e model.Endpoint) bool { return e.Address == p.Address }) {
		return true
	}
	if svc.Selector.IsEmpty() {
		return false
	}
	if svc.Selector.Selects(p.Labels) {
		return true
	}
	for e := range m.delta.To.WorkloadEntriesAt(p.Namespace, p.Address) {
		if svc.Selector.Selects(e.Labels) {
			return true
		}
	}
	return false
}

// Affects reports whether the delta may put a proxy into another class.
func (m Moves) Affects(p Proxy) bool {
	for _, w := range m.delta.Workloads {
		if w.Either().Namespace == p.Namespace && w.Either().Name == p.Name {
			return true
		}
	}
	for _, n := range m.delta.Nodes {
		if p.Place != nil && n.Either().Name == p.Place.Node {
			return true
		}
	}
	for _, s := range m.delta.Services {
		for _, v := range []*model.Service{s.Old, s.New} {
			if v != nil && v.Namespace == p.Namespace && m.mayServe(v, p) {
				return true
			}
		}
	}
	for _, svc := range m.pooled[p.Namespace] {
		if m.mayServe(svc, p) {
			return true
		}
	}
	for _, e := range m.delta.WorkloadEntries {
		for _, v := range []*model.WorkloadEntry{e.Old, e.New} {
			if v != nil && v.Namespace == p.Namespace && v.Address == p.Address {
				return true
			}
		}
	}
	for _, l := range m.selectors {
		if l.Selects(p.Labels) {
			return true
		}
	}
	return m.movesByMatch(p) || m.redeploys(p)
}

// redeploys reports whether the Gateway that a proxy is for is deployed by another name than
// before.
func (m Moves) redeploys(p Proxy) bool {
	gateway, has := p.Labels.Get(model.GatewayNameLabel)
	return has && slices.Contains(m.deployed, model.ObjectName{Namespace: p.Namespace, Name: gateway})
}
