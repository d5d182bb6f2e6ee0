package admin

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

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
	return [...]string{
		model.Healthy: "Healthy", model.Unhealthy: "UnHealthy", model.Draining: "Draining", model.Ending: "Draining",
	}[h]
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
