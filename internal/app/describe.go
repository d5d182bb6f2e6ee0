package app

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe/debug"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Description is what the mesh knows of a Pod or a service: what applies to it, and what is wrong
// with that.
type Description struct {
	Kind           string            `json:"kind"`
	Namespace      string            `json:"namespace"`
	Name           string            `json:"name"`
	Labels         map[string]string `json:"labels,omitempty"`
	Host           string            `json:"host,omitempty"`
	ServiceAccount string            `json:"serviceAccount,omitempty"`
	Addresses      []string          `json:"addresses,omitempty"`
	Locality       string            `json:"locality,omitempty"`
	// MutualTLS is the mode of calls to it; of a service MIXED if its Pods differ, empty without
	// Pods.
	MutualTLS debug.MutualTLS `json:"mutualTLS,omitempty"`
	// MutualTLSPorts are the ports of a Pod with a mode of their own.
	MutualTLSPorts map[uint16]debug.MutualTLS `json:"mutualTLSPorts,omitempty"`
	Ports          []DescribedPort            `json:"ports,omitempty"`
	Endpoints      *DescribedEndpoints        `json:"endpoints,omitempty"`
	Services       []Description              `json:"services,omitempty"` // of a Pod
	// Applied are the objects that say something about it, by kind and name.
	Applied  []DescribedObject `json:"applied,omitempty"`
	Problems []string          `json:"problems,omitempty"`
}

// DescribedPort is a port of a service.
type DescribedPort struct {
	Name     string `json:"name,omitempty"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
	Target   string `json:"target,omitempty"`
}

// DescribedEndpoints counts the endpoints of a service.
type DescribedEndpoints struct {
	Healthy int `json:"healthy"`
	All     int `json:"all"`
}

// DescribedObject is an object that applies, and how.
type DescribedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	How       string `json:"how,omitempty"`
}

// errNotDescribed is the error of what the mesh does not know.
var errNotDescribed = errors.New("is not known to the mesh")

// describePage answers /debug/describe?kind=pod&namespace=…&name=….
func (p *Pipeline) describePage(query url.Values) (any, error) {
	w := p.snapshot.Load()
	if w == nil {
		return nil, errors.New("nothing is read yet")
	}
	d := describer{w, map[source.Key]bool{}}
	namespace, name := query.Get("namespace"), query.Get("name")
	var out *Description
	switch kind := query.Get("kind"); kind {
	case "pod":
		out = d.pod(namespace, name)
	case "service":
		out = d.service(namespace, name)
	default:
		return nil, fmt.Errorf("the kind %.64q: want pod or service", kind)
	}
	if out == nil {
		return nil, fmt.Errorf("%s %.253q of namespace %.253q %w", query.Get("kind"), name, namespace, errNotDescribed)
	}
	for _, problem := range p.problemStore.Problems() {
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

func (d describer) pod(namespace, name string) *Description {
	pod := d.w.Workload(namespace, name)
	if pod == nil {
		return nil
	}
	d.involved[pod.Key()] = true
	out := &Description{
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
					out.MutualTLSPorts = map[uint16]debug.MutualTLS{}
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
func (d describer) policies(out *Description, pod *model.Workload) {
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

func (d describer) service(namespace, name string) *Description {
	for svc := range d.w.ServicesIn(namespace) {
		if svc.Name == name || string(svc.Host) == name {
			return d.described(svc)
		}
	}
	return nil
}

func (d describer) described(svc *model.Service) *Description {
	d.involved[svc.Key()] = true
	out := &Description{
		Kind: string(svc.Kind), Namespace: svc.Namespace, Name: svc.Name, Host: string(svc.Host),
		Labels: svc.Selector.Map(), Addresses: svc.Addresses, MutualTLS: d.serviceMTLS(svc),
		Endpoints: &DescribedEndpoints{},
	}
	for _, port := range svc.Ports {
		target := port.TargetName
		if port.Target != 0 {
			target = fmt.Sprint(port.Target)
		}
		out.Ports = append(out.Ports, DescribedPort{port.Name, port.Port, port.Protocol.String(), target})
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
func (d describer) routes(out *Description, all iter.Seq[*model.VirtualService]) {
	for v := range all {
		how := "for callers in the mesh"
		if !slices.Contains(v.Gateways, model.Mesh) {
			how = fmt.Sprintf("at %v", v.Gateways)
		}
		d.apply(out, &v.Meta, how)
	}
}

// serviceMTLS returns the mode of the Pods of a service.
func (d describer) serviceMTLS(svc *model.Service) debug.MutualTLS {
	if svc.Selector.IsEmpty() || svc.Kind != kinds.Service {
		return ""
	}
	var found debug.MutualTLS
	for pod := range d.w.Workloads() {
		if pod.Namespace != svc.Namespace || !svc.Selector.Selects(pod.Labels) {
			continue
		}
		mode, _ := d.mtls(pod).Mode(0)
		name := mutualTLSNames[mode]
		if found != "" && found != name {
			return debug.MixedMutualTLS
		}
		found = name
	}
	return found
}

// apply adds an object, unless it is there.
func (d describer) apply(out *Description, m *model.Meta, how string) {
	key := m.Key()
	d.involved[key] = true
	o := DescribedObject{string(key.Kind), key.Namespace, key.Name, how}
	if !slices.ContainsFunc(out.Applied, func(a DescribedObject) bool {
		return a.Kind == o.Kind && a.Namespace == o.Namespace && a.Name == o.Name
	}) {
		out.Applied = append(out.Applied, o)
	}
}
