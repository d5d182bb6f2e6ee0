package admin

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// errNotDescribed is the error of what the mesh does not know.
var errNotDescribed = errors.New("is not known to the mesh")

// describe answers /debug/describe?kind=pod&namespace=…&name=….
func (m *Mesh) describe(query url.Values) (any, error) {
	w := m.Snapshot()
	if w == nil {
		return nil, errNotReady
	}
	d, q := describer{w, map[source.Key]bool{}}, page.ObjectQuestionOf(query)
	describe := map[string]func(namespace, name string) *page.Description{"pod": d.pod, "service": d.service}[q.Kind]
	if describe == nil {
		return nil, fmt.Errorf("the kind %.64q: want pod or service", q.Kind)
	}
	name, err := d.named(q)
	if err != nil {
		return nil, err
	}
	out := describe(q.Namespace, name)
	for _, problem := range m.Problems() {
		if d.involved[problem.Object] {
			out.Problems = append(out.Problems, problem.String())
		}
	}
	return out, nil
}

// describer looks up what applies, in one generation.
type describer struct {
	w        *state.Snapshot
	involved map[source.Key]bool
}

func (d describer) pod(namespace, name string) *page.Description {
	pod := d.w.Workload(namespace, name)
	if pod == nil {
		return nil
	}
	d.involved[pod.Key()] = true
	out := &page.Description{
		Kind: string(pod.Kind), Namespace: namespace, Name: name, Labels: pod.Labels.Map(),
		ServiceAccount: pod.ServiceAccount, Addresses: pod.Addresses, Locality: d.w.LocalityOf(pod).String(),
	}
	m := d.mtls(pod)
	mode, _ := m.Mode(0)
	out.MutualTLS = mutualTLSNames[mode]
	for _, policy := range []*model.PeerAuthentication{m.Own, m.Namespace, m.Mesh} {
		if policy != nil {
			d.apply(out, &policy.Meta, "")
		}
	}
	if m.Own != nil {
		for _, port := range m.Own.Ports {
			if of, _ := m.Mode(port.Port); of != mode {
				if out.MutualTLSPorts == nil {
					out.MutualTLSPorts = map[uint16]page.MutualTLS{}
				}
				out.MutualTLSPorts[port.Port] = mutualTLSNames[of]
			}
		}
	}
	d.policies(out, pod)
	for svc := range d.w.ServicesSelecting(namespace, pod.Labels) {
		out.Services = append(out.Services, *d.described(svc))
	}
	return out
}

func (d describer) mtls(pod *model.Workload) state.MTLS {
	return d.w.MTLSFor(pod.Namespace, pod.Labels)
}

// policies adds the policies, the Sidecar and the Gateways of a Pod, as its proxy's class has them.
func (d describer) policies(out *page.Description, pod *model.Workload) {
	proxy := scope.Proxy{Type: scope.Sidecar, Namespace: pod.Namespace, Labels: pod.Labels}
	if pod.Gateway {
		proxy.Type = scope.Router
	}
	class := scope.NewClassifier().Classify(d.w, proxy)
	seen := scope.New(d.w, &class)
	for _, p := range seen.AuthorizationPolicies() {
		how := authorizationActions[p.Action]
		if p.DryRun {
			how += ", dry run"
		}
		d.apply(out, &p.Meta, how)
	}
	for _, p := range seen.RequestAuthentications() {
		d.apply(out, &p.Meta, "")
	}
	if s := seen.Sidecar(); s != nil {
		d.apply(out, &s.Meta, "")
	}
	for _, f := range seen.EnvoyFilters() {
		d.apply(out, &f.Meta, f.Says)
	}
	for g := range d.w.Gateways() {
		if !g.Selector.IsEmpty() && g.Selector.Selects(pod.Labels) {
			d.apply(out, &g.Meta, "")
			for v := range d.w.VirtualServicesAt(nameOfGateway(g)) {
				d.apply(out, &v.Meta, "through Gateway "+nameOfGateway(g))
			}
		}
	}
}

func nameOfGateway(g *model.Gateway) string { return g.Namespace + "/" + g.Name }

func (d describer) service(namespace, name string) *page.Description {
	for svc := range d.w.ServicesIn(namespace) {
		if svc.Name == name || string(svc.Host) == name {
			return d.described(svc)
		}
	}
	return nil
}

func (d describer) described(svc *model.Service) *page.Description {
	d.involved[svc.Key()] = true
	out := &page.Description{
		Kind: string(svc.Kind), Namespace: svc.Namespace, Name: svc.Name, Host: string(svc.Host),
		Labels: svc.Selector.Map(), Addresses: svc.Addresses, MutualTLS: d.serviceMTLS(svc),
		Endpoints: &page.DescribedEndpoints{},
	}
	for _, port := range svc.Ports {
		target := port.TargetName
		if port.Target != 0 {
			target = fmt.Sprint(port.Target)
		}
		out.Ports = append(out.Ports, page.DescribedPort{
			Name: port.Name, Port: port.Port, Protocol: port.Protocol.String(), Target: target,
		})
	}
	for _, e := range d.w.Endpoints(svc).All() {
		if out.Endpoints.All++; e.Health == model.Healthy {
			out.Endpoints.Healthy++
		}
	}
	for pattern := range svc.Host.Patterns() {
		for r := range d.w.DestinationRulesOf(pattern) {
			d.apply(out, &r.Meta, "for "+string(r.Host))
		}
		d.routes(out, d.w.VirtualServicesOf(pattern))
	}
	d.routes(out, d.w.VirtualServicesTo(svc.Host))
	return out
}

// routes adds VirtualServices, each once.
func (d describer) routes(out *page.Description, all iter.Seq[*model.VirtualService]) {
	for v := range all {
		how := "for callers in the mesh"
		if !slices.Contains(v.Gateways, model.Mesh) {
			how = fmt.Sprintf("at %v", v.Gateways)
		}
		d.apply(out, &v.Meta, how)
	}
}

// serviceMTLS returns the mode of the Pods of a service.
func (d describer) serviceMTLS(svc *model.Service) page.MutualTLS {
	if svc.Selector.IsEmpty() || svc.Kind != kinds.Service {
		return ""
	}
	var found page.MutualTLS
	for pod := range d.w.Workloads() {
		if pod.Namespace != svc.Namespace || !svc.Selector.Selects(pod.Labels) {
			continue
		}
		mode, _ := d.mtls(pod).Mode(0)
		name := mutualTLSNames[mode]
		if found != "" && found != name {
			return page.MixedMutualTLS
		}
		found = name
	}
	return found
}

// apply adds an object, unless it is there.
func (d describer) apply(out *page.Description, m *model.Meta, how string) {
	key := m.Key()
	d.involved[key] = true
	o := page.DescribedObject{Kind: string(key.Kind), Namespace: key.Namespace, Name: key.Name, How: how}
	if !slices.ContainsFunc(out.Applied, func(a page.DescribedObject) bool {
		return a.Kind == o.Kind && a.Namespace == o.Namespace && a.Name == o.Name
	}) {
		out.Applied = append(out.Applied, o)
	}
}
