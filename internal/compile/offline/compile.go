package offline

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Compiled is what the proxies of a mesh would get.
type Compiled struct {
	// Patches is what the patches of EnvoyFilters match, of those that are for some proxy.
	Patches []compile.PatchMatches
	// compiler and writer have the mesh as it is compiled.
	compiler *compile.Compiler
	writer   *state.Writer
	filters  map[source.Key]*model.EnvoyFilter
	origins  map[source.Key]string // of the filters
	has      map[holding]bool
	root     string               // the root namespace
	known    map[audience]*naming // made when asked for
}

// holding is what the proxies of a kind have in a namespace.
type holding struct {
	state     resource.State
	kind      scope.ProxyType
	namespace string
}

// Compile compiles the mesh. config is its configuration, unless an object says otherwise. What the
// converter refuses of objects the mesh lacks. Secrets and endpoints that are not among the objects
// are taken to be there.
func (m *Mesh) Compile(converter *convert.Converter, config model.MeshConfig) *Compiled {
	c := &Compiled{
		filters: map[source.Key]*model.EnvoyFilter{}, origins: map[source.Key]string{},
		has: map[holding]bool{}, known: map[audience]*naming{},
	}
	compiler := compile.NewCompiler(compile.Refusals{ // what cannot be sent, others tell
		Endpoint: func(model.Endpoint, error) {},
		Resource: func(string, error) {},
		Patch:    func(compile.RefusedPatch) {},
	})
	writer := state.NewWriter()
	advance := func(updates []state.Update) (*state.Snapshot, *state.Delta) {
		snap, delta := writer.Apply(updates)
		compiler.Advance(delta, func(compile.Step) {})
		return snap, delta
	}
	updates := m.convert(converter, config)
	snap, delta := advance(updates)
	snap, _ = advance(m.lacking(snap, delta))
	c.root, c.compiler, c.writer = snap.Mesh.RootNamespace, compiler, writer
	for _, pod := range m.proxies {
		workload := snap.Workload(pod.Namespace, pod.Name)
		f := factsOf(pod, workload != nil && workload.Gateway)
		compiler.Join(f, func(_ *compile.Member, at compile.Placement) {
			c.has[holding{at.State, f.Proxy.Type, pod.Namespace}] = true
		})
	}
	c.Patches = compiler.PatchMatches()
	c.noteFilters(m.changes, updates)
	return c
}

func (c *Compiled) noteFilters(changes []source.Change, updates []state.Update) {
	for _, u := range updates {
		for _, o := range u.Objects {
			if f, ok := o.(*model.EnvoyFilter); ok {
				c.filters[u.Key] = f
			}
		}
	}
	for _, change := range changes {
		if c.filters[change.Key] != nil {
			c.origins[change.Key] = change.Origin
		}
	}
}

// convert converts all objects: first that of the configuration, which has a say in the others.
func (m *Mesh) convert(converter *convert.Converter, config model.MeshConfig) []state.Update {
	stated := config
	for _, c := range m.changes {
		if c.Key != converter.MeshKey() {
			continue
		}
		for _, o := range converter.Convert(c, config).Objects {
			if own, ok := o.(*model.MeshConfig); ok {
				stated = *own
			}
		}
	}
	updates := []state.Update{{Key: converter.MeshKey(), Objects: []model.Object{&stated}}}
	for _, c := range m.changes {
		if c.Key != converter.MeshKey() {
			updates = append(updates, state.Update{Key: c.Key, Objects: converter.Convert(c, stated).Objects})
		}
	}
	return updates
}

// lacking is what a mesh has beside its manifests: the Secrets that Gateways name, without which a
// port is not opened, and endpoints of headless services, which have listeners of their own.
func (m *Mesh) lacking(snap *state.Snapshot, all *state.Delta) []state.Update {
	var updates []state.Update
	for _, g := range all.Gateways {
		for _, name := range g.New.Credentials() {
			updates = append(updates, m.credentials(snap, name)...)
		}
	}
	has := map[model.Host]bool{}
	for _, e := range all.Endpoints {
		has[e.Host] = true
	}
	for _, s := range all.Services {
		if s.New.Headless && s.New.Kind == kinds.Service && !has[s.New.Host] {
			updates = append(updates, m.endpoints(s.New))
		}
	}
	return updates
}

// credentials are stand-ins of a Secret, where a gateway would look for it and it is not there.
func (m *Mesh) credentials(snap *state.Snapshot, name string) (updates []state.Update) {
	for _, pod := range m.proxies {
		if snap.Credential(pod.Namespace, name) != nil {
			continue
		}
		meta := model.Meta{Kind: kinds.Secret, Namespace: pod.Namespace, Name: name}
		updates = append(updates, state.Update{Key: meta.Key(), Objects: []model.Object{&model.Credential{
			Meta:        meta,
			Pair:        &model.KeyPair{Chain: model.NewSensitive("offline"), Key: model.NewSensitive("offline")},
			Authorities: &model.Authorities{Certificates: model.NewSensitive("offline")},
		}}})
	}
	return updates
}

// endpoints are those of a service, at the Pods that it selects or else at one that is made up.
func (m *Mesh) endpoints(s *model.Service) state.Update {
	slice := &model.EndpointSlice{
		Meta:    model.Meta{Kind: kinds.EndpointSlice, Namespace: s.Namespace, Name: s.Name},
		Service: s.Name,
	}
	for _, port := range s.Ports {
		target := port.Target
		if target == 0 {
			target = port.Port
		}
		slice.Ports = append(slice.Ports, model.SlicePort{Name: port.Name, Port: target})
	}
	for _, pod := range m.proxies {
		if pod.Namespace == s.Namespace && !s.Selector.IsEmpty() && s.Selector.Selects(labelsOf(pod)) {
			slice.Hosts = append(slice.Hosts, model.SliceHost{Address: pod.Status.PodIP, Pod: pod.Name})
		}
	}
	if len(slice.Hosts) == 0 {
		m.pods++
		address := fmt.Sprintf("100.%d.%d.%d", 64+m.pods>>16&63, m.pods>>8&255, m.pods&255)
		slice.Hosts = []model.SliceHost{{Address: address}}
	}
	return state.Update{Key: slice.Key(), Objects: []model.Object{slice}}
}

func labelsOf(pod *corev1.Pod) model.Labels { return model.LabelsOf(pod.Labels) }

// stackOf returns the families of a Pod's addresses.
func stackOf(pod *corev1.Pod) model.Stack {
	has4, has6 := false, false
	for _, of := range append(pod.Status.PodIPs, corev1.PodIP{IP: pod.Status.PodIP}) {
		if a, err := netip.ParseAddr(of.IP); err == nil {
			has4, has6 = has4 || a.Unmap().Is4(), has6 || !a.Unmap().Is4()
		}
	}
	switch {
	case has4 && has6:
		return model.BothStacks
	case has6:
		return model.IPv6Stack
	}
	return model.IPv4Stack
}

// Patch returns the patch that one of Patches is about.
func (c *Compiled) Patch(of compile.PatchMatches) *model.ConfigPatch {
	i := slices.IndexFunc(c.filters[of.Owner].Patches, func(p *model.ConfigPatch) bool { return p.Index == of.Index })
	return c.filters[of.Owner].Patches[i]
}
