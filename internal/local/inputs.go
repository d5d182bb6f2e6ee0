package local

import (
	"cmp"
	"maps"
	"slices"

	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
	deployments  map[source.Key]declared[*appsv1.Deployment]
	statefulSets map[source.Key]declared[*appsv1.StatefulSet]
	daemonSets   map[source.Key]declared[*appsv1.DaemonSet]
	jobs         map[source.Key]declared[*batchv1.Job]
	pods         map[source.Key]declared[*corev1.Pod]
	namespaces   map[string]*corev1.Namespace
	accounts     map[source.Key]bool
	services     map[string]map[string]*corev1.Service // namespace → name
	configMaps   map[string]map[string]*corev1.ConfigMap
	// proxyConfigs say how Envoys start. A change is for pods that start later.
	proxyConfigs map[source.Key]*networkingv1beta1.ProxyConfig
	// serviceOrigins are the origins of Services, for problems.
	serviceOrigins map[source.Key]string
	gateways       *gateways
}

func newInputs() *inputs {
	return &inputs{
		deployments:    map[source.Key]declared[*appsv1.Deployment]{},
		statefulSets:   map[source.Key]declared[*appsv1.StatefulSet]{},
		daemonSets:     map[source.Key]declared[*appsv1.DaemonSet]{},
		jobs:           map[source.Key]declared[*batchv1.Job]{},
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

// meshConfig is what the runtime reads of the mesh configuration.
type meshConfig struct {
	TrustDomain   string `json:"trustDomain"`
	DefaultConfig struct {
		Concurrency *int32 `json:"concurrency"`
	} `json:"defaultConfig"`
}

// mesh returns the mesh configuration. The control plane reports what is wrong with it.
func (in *inputs) mesh() (mesh meshConfig) {
	if m := in.configMaps[model.DefaultMesh().RootNamespace]["istio"]; m != nil {
		_ = yaml.Unmarshal([]byte(m.Data["mesh"]), &mesh)
	}
	return mesh
}

// trustDomain is that of the mesh configuration.
func (in *inputs) trustDomain() string {
	return cmp.Or(in.mesh().TrustDomain, model.DefaultMesh().TrustDomain)
}

// concurrency is the number of worker threads that the mesh configuration says; nil if it says
// none, or less than none.
func (in *inputs) concurrency() *int32 {
	n := in.mesh().DefaultConfig.Concurrency
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// apply takes a change. It returns true if the runtime publishes the object itself: a Pod, which
// gets a status first.
func (in *inputs) apply(c source.Change) (own bool) {
	switch c.Key.Kind {
	case kinds.Deployment:
		declare(in.deployments, c)
	case kinds.StatefulSet:
		declare(in.statefulSets, c)
	case kinds.DaemonSet:
		declare(in.daemonSets, c)
	case kinds.Job:
		declare(in.jobs, c)
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
	relocate(in.deployments, p)
	relocate(in.statefulSets, p)
	relocate(in.daemonSets, p)
	relocate(in.jobs, p)
	relocate(in.pods, p)
	if _, ok := in.serviceOrigins[p.Key]; ok {
		in.serviceOrigins[p.Key] = p.Origin
	}
}

func relocate[T any](m map[source.Key]declared[T], p source.Place) {
	if d, ok := m[p.Key]; ok {
		d.origin = p.Origin
		m[p.Key] = d
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
