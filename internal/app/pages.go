package app

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe/debug"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// debugOptions returns what the pages and answers for operators and their tools show.
func (p *Pipeline) debugOptions() debug.Options {
	pod := ""
	if p.o.Cluster != nil {
		pod = p.o.Cluster.o.Pod
	}
	return debug.Options{
		Version:       p.o.Version,
		Gatherer:      prometheus.GathererFunc(p.gather),
		Fleet:         p.server,
		Problems:      p.problemStore.Problems,
		Ready:         p.registry.ready,
		Hosts:         debugHosts(p.o),
		Pod:           pod,
		RootNamespace: func() string { return p.meshConfig().RootNamespace },
		Pages:         p.pages(),
		Queries: map[string]func(url.Values) (any, error){
			"describe": p.describePage, "authorize": p.authorizePage, "census": p.censusPage,
		},
		MutualTLS: p.mutualTLS,
	}
}

// gather returns the metrics. What changes between generations too is read now.
func (p *Pipeline) gather() ([]*dto.MetricFamily, error) {
	p.meters.classes(p.compiler)
	return p.metrics.Registry.Gather()
}

// inspectorOf is the Inspector of a pipeline, which is made after the server that it looks at.
type inspectorOf struct{ p *Pipeline }

// Inspect implements serve.Inspector.
func (i inspectorOf) Inspect(id serve.Identity, typeURL string, names []string) (serve.Inspection, error) {
	return i.p.inspector.Inspect(id, typeURL, names)
}

// pages returns istiod's debug pages about the mesh, by name. Their content is Lateen's own model,
// since it is what is in force. Pages about what Lateen does not have are empty, so that a tool
// which collects all pages gets an answer for each.
func (p *Pipeline) pages() map[string]func() any {
	of := func(page func(*state.Snapshot) any) func() any {
		return func() any {
			if w := p.snapshot.Load(); w != nil {
				return page(w)
			}
			return struct{}{}
		}
	}
	pages := map[string]func() any{
		"registryz":      of(func(w *state.Snapshot) any { return servicePages(w) }),
		"endpointShardz": of(func(w *state.Snapshot) any { return endpointPages(w, p.clusterID()) }),
		"endpointz":      of(func(w *state.Snapshot) any { return endpointPages(w, p.clusterID()) }),
		"authorizationz": of(func(w *state.Snapshot) any { return policyPages(w) }),
		"mesh":           of(func(w *state.Snapshot) any { return w.Mesh }),
		"inject":         p.injectPage,
		"clusterz": func() any {
			return []clusterPage{{ID: p.clusterID(), SyncStatus: p.syncStatus()}}
		},
	}
	for _, name := range []string{ // objects
		"ambientz", "cachez", "instancesz", "krtz", "push_status", "pushcontext", "sidecarz", "telemetryz",
	} {
		pages[name] = func() any { return struct{}{} }
	}
	for _, name := range []string{"configz", "mcsz", "networkz", "resourcesz"} { // lists
		pages[name] = func() any { return []string{} }
	}
	return pages
}

// clusterPage is one cluster whose objects are read, as `istioctl remote-clusters` lists it.
type clusterPage struct {
	ID         string `json:"id"`
	SecretName string `json:"secretName"` // of a remote cluster's access; this is the own cluster
	SyncStatus string `json:"syncStatus"`
}

func (p *Pipeline) clusterID() string { return cmp.Or(p.o.ClusterID, "Kubernetes") }

func (p *Pipeline) syncStatus() string {
	if p.registry.ready() != nil {
		return "syncing"
	}
	return "synced"
}

// injectPage returns the templates with which Pods get their proxies.
func (p *Pipeline) injectPage() any {
	if p.o.Cluster == nil || p.o.Cluster.injection == nil {
		return struct{}{}
	}
	injector, err := p.o.Cluster.injection.Injector()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return injector.Templates
}

// servicePage is one host that can be called.
type servicePage struct {
	Hostname  model.Host        `json:"hostname"`
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Addresses []string          `json:"addresses,omitempty"`
	Ports     []servicePortPage `json:"ports"`
	Selector  map[string]string `json:"selector,omitempty"`
	ExportTo  model.Exports     `json:"exportTo"`
	Headless  bool              `json:"headless,omitempty"`
	External  bool              `json:"external,omitempty"`
	Accounts  []string          `json:"serviceAccounts,omitempty"`
}

type servicePortPage struct {
	Name     string `json:"name,omitempty"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
}

func servicePages(w *state.Snapshot) []servicePage {
	all := []servicePage{}
	for svc := range w.Services() {
		page := servicePage{
			Hostname: svc.Host, Kind: string(svc.Kind), Namespace: svc.Namespace, Name: svc.Name,
			Addresses: svc.Addresses, Selector: svc.Selector.Map(), ExportTo: svc.ExportTo, Headless: svc.Headless,
			External: svc.External, Accounts: w.Accounts(svc),
		}
		for _, port := range svc.Ports {
			page.Ports = append(page.Ports, servicePortPage{port.Name, port.Port, port.Protocol.String()})
		}
		all = append(all, page)
	}
	slices.SortStableFunc(all, func(a, b servicePage) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// shardPage are the endpoints of a host in a namespace, as istiod nests them.
type shardPage struct {
	Shards   map[string][]endpointPage
	Accounts []string `json:"ServiceAccounts"`
}

type endpointPage struct {
	Address  string
	Port     uint16            `json:"EndpointPort"`
	PortName string            `json:"ServicePortName"`
	Labels   map[string]string `json:",omitempty"`
	Workload string            `json:",omitempty"`
	Locality string            `json:",omitempty"`
	Node     string            `json:"NodeName,omitempty"`
	Health   string            `json:"HealthStatus"`
	// TLS says whether callers use mutual TLS of the mesh.
	TLS bool
}

func endpointPages(w *state.Snapshot, cluster string) map[model.Host]map[string]shardPage {
	all := map[model.Host]map[string]shardPage{}
	for svc := range w.Services() {
		if _, taken := all[svc.Host][svc.Namespace]; taken {
			continue // the first in the total order counts
		}
		page := shardPage{Accounts: w.Accounts(svc), Shards: map[string][]endpointPage{}}
		shard := "Kubernetes/" + cluster
		for _, e := range w.Endpoints(svc).All() {
			page.Shards[shard] = append(page.Shards[shard], endpointPage{
				Address: e.Address, Port: e.Port, PortName: e.PortName, Labels: e.Labels.Map(), Workload: e.Workload,
				Locality: e.Locality.String(), Node: e.Node, Health: healthName(e.Health), TLS: e.TLS,
			})
		}
		if all[svc.Host] == nil {
			all[svc.Host] = map[string]shardPage{}
		}
		all[svc.Host][svc.Namespace] = page
	}
	return all
}

func healthName(h model.Health) string {
	return [...]string{model.Healthy: "Healthy", model.Unhealthy: "UnHealthy", model.Draining: "Draining"}[h]
}

// policyPage is an AuthorizationPolicy in force.
type policyPage struct {
	Namespace string                    `json:"namespace"`
	Name      string                    `json:"name"`
	Selector  map[string]string         `json:"selector,omitempty"`
	Gateways  []string                  `json:"gateways,omitempty"`
	Action    string                    `json:"action"`
	DryRun    bool                      `json:"dryRun,omitempty"`
	Rules     []model.AuthorizationRule `json:"rules"`
}

var authorizationActions = [...]string{
	model.AuthorizationAllow: "ALLOW", model.AuthorizationDeny: "DENY",
	model.AuthorizationAudit: "AUDIT", model.AuthorizationCustom: "CUSTOM",
}

// policyPages returns the policies of each namespace, as istiod nests them.
func policyPages(w *state.Snapshot) any {
	all := map[string][]policyPage{}
	for p := range w.AllAuthorizationPolicies() {
		all[p.Namespace] = append(all[p.Namespace], policyPage{
			Namespace: p.Namespace, Name: p.Name, Selector: p.Selector.Map(), Gateways: p.Gateways, DryRun: p.DryRun,
			Action: authorizationActions[p.Action],
			Rules:  policy.RulesOf(p),
		})
	}
	return map[string]any{"authorization_policies": map[string]any{
		"namespace_to_policies": all, "root_namespace": w.Mesh.RootNamespace,
	}}
}
