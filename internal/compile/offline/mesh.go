package offline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// What Istio's injection reads of a Pod.
const (
	injectName       = "sidecar.istio.io/inject"
	interceptionMode = "sidecar.istio.io/interceptionMode"
)

// Mesh is objects and proxies. The zero value has none.
type Mesh struct {
	changes []source.Change
	proxies []*corev1.Pod // with a proxy each
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

// AddWorkload adds a Pod of a template that no injection has seen. It has a proxy unless the Pod or
// its namespace keeps the injection from it, of a gateway if that is known or the Pod says so.
func (m *Mesh) AddWorkload(of source.Key, template *corev1.PodTemplateSpec, gateway bool) {
	if declines(template) {
		return
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.GenerateName = of.Namespace, "", of.Name+"-"
	if !hasProxy(pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: kinds.ProxyContainer})
	}
	if gateway {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[kinds.TemplatesAnnotation] = "gateway"
	}
	m.AddPod(pod)
}

// declines reports whether a Pod gets no proxy whatever its namespace says. The label comes before
// the annotation.
func declines(template *corev1.PodTemplateSpec) bool {
	asked, labelled := template.Labels[injectName]
	if !labelled {
		asked = template.Annotations[injectName]
	}
	return asked == "false" || template.Spec.HostNetwork
}

// AddPod adds a Pod as the injection makes it, with its proxy. One without a proxy is left out. A
// Pod of a template has no address and no name; it gets some.
func (m *Mesh) AddPod(pod *corev1.Pod) {
	if !hasProxy(pod) {
		return
	}
	pod = m.running(pod)
	m.Add(source.Change{Key: source.Key{Kind: kinds.Pod, Namespace: pod.Namespace, Name: pod.Name}, Object: pod})
	m.proxies = append(m.proxies, pod)
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
	pod.Spec.ServiceAccountName = cmp.Or(pod.Spec.ServiceAccountName, "default")
	return pod
}

func hasProxy(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers),
		func(c corev1.Container) bool { return c.Name == kinds.ProxyContainer })
}

// factsOf are what the proxy of a Pod would say, and may have. The Pod's workload says whether it
// is a gateway.
func factsOf(pod *corev1.Pod, gateway bool) compile.Facts {
	f := compile.Facts{
		Account: pod.Spec.ServiceAccountName,
		Proxy: scope.Proxy{
			Address: pod.Status.PodIP, Namespace: pod.Namespace, Name: pod.Name,
			Labels:   labelsOf(pod),
			Settings: scope.Settings{FiltersApart: true, Agent: true, Stack: stackOf(pod)},
			Stating:  scope.Stating{Version: istionames.Version},
		},
	}
	if gateway {
		f.Proxy.Type, f.Proxy.Settings.Credentials = scope.Router, scope.AllCredentials
	} else {
		f.Proxy.Settings.Intercepted = !strings.EqualFold(pod.Annotations[interceptionMode], "NONE")
	}
	return f
}
