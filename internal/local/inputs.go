package local

import (
	"cmp"
	"maps"
	"slices"

	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// declared is an object and its origin.
type declared[T any] struct {
	object T
	origin string
}

// inputs are the objects of the source that the runtime acts on.
type inputs struct {
	deployments map[source.Key]declared[*appsv1.Deployment]
	pods        map[source.Key]declared[*corev1.Pod]
	namespaces  map[string]*corev1.Namespace
	accounts    map[source.Key]bool
	services    map[string]map[string]*corev1.Service // namespace → name
	configMaps  map[string]map[string]*corev1.ConfigMap
	// proxyConfigs say how Envoys start. A change is for pods that start later.
	proxyConfigs map[source.Key]*networkingv1beta1.ProxyConfig
	// serviceOrigins are the origins of Services, for problems.
	serviceOrigins map[source.Key]string
	gateways       *gateways
}

func newInputs() *inputs {
	return &inputs{
		deployments:    map[source.Key]declared[*appsv1.Deployment]{},
		pods:           map[source.Key]declared[*corev1.Pod]{},
		namespaces:     map[string]*corev1.Namespace{},
		accounts:       map[source.Key]bool{},
		services:       map[string]map[string]*corev1.Service{},
		configMaps:     map[string]map[string]*corev1.ConfigMap{},
		proxyConfigs:   map[source.Key]*networkingv1beta1.ProxyConfig{},
		serviceOrigins: map[source.Key]string{},
		gateways:       newGateways(),
	}
}

// trustDomain is that of the mesh configuration.
func (in *inputs) trustDomain() string {
	var mesh struct {
		TrustDomain string `json:"trustDomain"`
	}
	defaults := model.DefaultMesh()
	if m := in.configMaps[defaults.RootNamespace]["istio"]; m != nil {
		_ = yaml.Unmarshal([]byte(m.Data["mesh"]), &mesh) // the control plane reports what is wrong
	}
	return cmp.Or(mesh.TrustDomain, defaults.TrustDomain)
}

// apply takes a change. It returns true if the runtime publishes the object itself: a Pod, which
// gets a status first.
func (in *inputs) apply(c source.Change) (own bool) {
	switch c.Key.Kind {
	case kinds.Deployment:
		declare(in.deployments, c)
	case kinds.Pod:
		declare(in.pods, c)
		return true
	case kinds.Service:
		byName(in.services, c)
		in.serviceOrigins[c.Key] = c.Origin
		if c.Object == nil {
			delete(in.serviceOrigins, c.Key)
		}
	case kinds.ConfigMap:
		byName(in.configMaps, c)
	case kinds.ProxyConfig:
		delete(in.proxyConfigs, c.Key)
		if o, ok := c.Object.(*networkingv1beta1.ProxyConfig); ok {
			in.proxyConfigs[c.Key] = o
		}
	case kinds.Namespace:
		in.namespaces[c.Key.Name], _ = c.Object.(*corev1.Namespace)
	case kinds.ServiceAccount:
		in.accounts[c.Key] = c.Object != nil
	}
	return false
}

// move updates the origin of an object.
func (in *inputs) move(p source.Place) {
	if d, ok := in.deployments[p.Key]; ok {
		d.origin = p.Origin
		in.deployments[p.Key] = d
	}
	if d, ok := in.pods[p.Key]; ok {
		d.origin = p.Origin
		in.pods[p.Key] = d
	}
	if _, ok := in.serviceOrigins[p.Key]; ok {
		in.serviceOrigins[p.Key] = p.Origin
	}
}

func declare[T metav1.Object](m map[source.Key]declared[T], c source.Change) {
	if o, ok := c.Object.(T); ok {
		m[c.Key] = declared[T]{object: o, origin: c.Origin}
		return
	}
	delete(m, c.Key)
}

func byName[T metav1.Object](m map[string]map[string]T, c source.Change) {
	if m[c.Key.Namespace] == nil {
		m[c.Key.Namespace] = map[string]T{}
	}
	if o, ok := c.Object.(T); ok {
		m[c.Key.Namespace][c.Key.Name] = o
		return
	}
	delete(m[c.Key.Namespace], c.Key.Name)
}

// eachService visits all Services in order.
func (in *inputs) eachService(visit func(*corev1.Service)) {
	for _, ns := range slices.Sorted(maps.Keys(in.services)) {
		for _, name := range slices.Sorted(maps.Keys(in.services[ns])) {
			visit(in.services[ns][name])
		}
	}
}

// hasAccount reports whether pods may run as the service account; every namespace has one named
// default.
func (in *inputs) hasAccount(namespace, name string) bool {
	return name == "default" || in.accounts[source.Key{Kind: kinds.ServiceAccount, Namespace: namespace, Name: name}]
}

// owner is a Deployment or a bare Pod: what pods are made from.
type owner struct {
	key    source.Key
	origin string
	// path is where the pod's specification stands in the object.
	path     string
	meta     metav1.ObjectMeta
	spec     *corev1.PodSpec
	hash     string
	template bool // a Deployment: pods get names of their own
}

// owners returns all owners in a fixed order.
func (in *inputs) owners() []owner {
	var out []owner
	for key, d := range in.deployments {
		t := &d.object.Spec.Template
		out = append(out, owner{
			key:      key,
			origin:   d.origin,
			path:     "spec.template.spec",
			meta:     t.ObjectMeta,
			spec:     &t.Spec,
			hash:     templateHash(t),
			template: true,
		})
	}
	for key, p := range in.pods {
		meta := metav1.ObjectMeta{Labels: p.object.Labels, Annotations: p.object.Annotations}
		t := &corev1.PodTemplateSpec{ObjectMeta: meta, Spec: p.object.Spec}
		out = append(out, owner{
			key:    key,
			origin: p.origin,
			path:   "spec",
			meta:   meta,
			spec:   &t.Spec,
			hash:   templateHash(t),
		})
	}
	slices.SortFunc(out, func(a, b owner) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return out
}
