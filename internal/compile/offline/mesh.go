package offline

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// What the injection writes and reads.
const (
	proxyContainer      = "istio-proxy"
	injectLabel         = "sidecar.istio.io/inject"
	templatesAnnotation = "inject.istio.io/templates"
)

// Mesh is objects and proxies. The zero value has none.
type Mesh struct {
	changes []source.Change
	proxies []compile.Facts
	pods    int
	filters bool // there are EnvoyFilters
}

// Add adds an object.
func (m *Mesh) Add(c source.Change) {
	m.changes = append(m.changes, c)
	m.filters = m.filters || c.Key.Kind == kinds.EnvoyFilter
}

// HasFilters reports whether the mesh has EnvoyFilters.
func (m *Mesh) HasFilters() bool { return m.filters }

// AddWorkload adds a Pod of a template that no injection has seen. It has a proxy unless a label
// says that it is to have none, of a gateway if that is known or an annotation says so.
func (m *Mesh) AddWorkload(of source.Key, template *corev1.PodTemplateSpec, gateway bool) {
	if template.Labels[injectLabel] == "false" || template.Annotations[injectLabel] == "false" {
		return
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.GenerateName = of.Namespace, "", of.Name+"-"
	if _, has := proxyOf(pod); !has {
		proxy := corev1.Container{Name: proxyContainer}
		if gateway || template.Annotations[templatesAnnotation] == "gateway" {
			proxy.Args = []string{"proxy", "router"}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, proxy)
	}
	m.AddPod(pod)
}

// AddPod adds a Pod as the injection makes it, with its proxy. One without a proxy is left out. A
// Pod of a template has no address and no name; it gets some.
func (m *Mesh) AddPod(pod *corev1.Pod) {
	kind, has := proxyOf(pod)
	if !has {
		return
	}
	pod = m.running(pod)
	m.Add(source.Change{Key: source.Key{Kind: kinds.Pod, Namespace: pod.Namespace, Name: pod.Name}, Object: pod})
	m.proxies = append(m.proxies, compile.Facts{
		Account: pod.Spec.ServiceAccountName,
		Proxy: scope.Proxy{
			Type: kind, Address: pod.Status.PodIP, Namespace: pod.Namespace, Name: pod.Name,
			Labels:   model.LabelsOf(pod.Labels),
			Settings: scope.Settings{Intercepted: kind == scope.Sidecar, FiltersApart: true, Agent: true},
			Stating:  scope.Stating{Version: istionames.Version},
		},
	})
}

// running returns a Pod with a name and an address.
func (m *Mesh) running(pod *corev1.Pod) *corev1.Pod {
	m.pods++
	pod = pod.DeepCopy()
	if pod.Name == "" {
		pod.Name = fmt.Sprintf("%s%d", pod.GenerateName, m.pods)
	}
	pod.Status.Phase = corev1.PodRunning
	if pod.Status.PodIP == "" { // of the shared address space (RFC 6598), which no cluster gives its Pods
		pod.Status.PodIP = fmt.Sprintf("100.%d.%d.%d", 64+m.pods>>16&63, m.pods>>8&255, m.pods&255)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	return pod
}

// proxyOf returns the kind of a Pod's proxy, and whether it has one.
func proxyOf(pod *corev1.Pod) (kind scope.ProxyType, has bool) {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name != proxyContainer {
			continue
		}
		if slices.Contains(c.Args, "router") {
			return scope.Router, true
		}
		return scope.Sidecar, true
	}
	return scope.Sidecar, false
}

// Compiled is what the proxies of a mesh would get.
type Compiled struct {
	// Patches is what the patches of EnvoyFilters match, of those that are for some proxy.
	Patches []compile.PatchMatches
	filters map[source.Key]*model.EnvoyFilter
	origins map[source.Key]string // of the filters
	states  map[resource.State]bool
}

// Compile compiles the mesh. config is its configuration, unless an object says otherwise. What the
// converter refuses of objects the mesh lacks.
func (m *Mesh) Compile(converter *convert.Converter, config model.MeshConfig) *Compiled {
	c := &Compiled{
		filters: map[source.Key]*model.EnvoyFilter{},
		origins: map[source.Key]string{},
		states:  map[resource.State]bool{},
	}
	compiler := compile.NewCompiler(compile.Refusals{ // what cannot be sent, others tell
		Endpoint: func(model.Endpoint, error) {},
		Resource: func(string, error) {},
		Patch:    func(compile.RefusedPatch) {},
	})
	updates := m.convert(converter, config)
	_, delta := state.NewWriter().Apply(updates)
	compiler.Advance(delta, func(compile.Step) {})
	for _, f := range m.proxies {
		compiler.Join(f, func(_ *compile.Member, at compile.Placement) { c.states[at.State] = true })
	}
	c.Patches = compiler.PatchMatches()
	for _, u := range updates {
		for _, o := range u.Objects {
			if f, ok := o.(*model.EnvoyFilter); ok {
				c.filters[u.Key] = f
			}
		}
	}
	for _, change := range m.changes {
		if c.filters[change.Key] != nil {
			c.origins[change.Key] = change.Origin
		}
	}
	return c
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

// Patch returns the patch that one of Patches is about.
func (c *Compiled) Patch(of compile.PatchMatches) *model.ConfigPatch {
	i := slices.IndexFunc(c.filters[of.Owner].Patches, func(p *model.ConfigPatch) bool { return p.Index == of.Index })
	return c.filters[of.Owner].Patches[i]
}
