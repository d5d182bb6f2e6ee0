package local

import (
	"strings"

	networkingapi "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// In a cluster DNS resolves the name of a StatefulSet's pod below its headless Service
// ("web-0.web"), and a sidecar that intercepts the connection knows the pod by its address. Here
// nothing resolves names: a process asks the HTTP proxy of its Envoy. So each of these names is a
// ServiceEntry that selects its pod. It has the Service's HTTP ports alone: at a port of bytes all
// pods of the Service are reached by one listener.

// podNames returns the entries for a pod's names: one that all see whom the Service is exported to,
// and the short name, which means the pod in its own namespace alone.
func podNames(s *corev1.Service, pod *corev1.Pod) []*networkingv1.ServiceEntry {
	if s.Spec.ClusterIP != corev1.ClusterIPNone || !selects(s, pod) || pod.Spec.Subdomain != s.Name ||
		pod.Labels[model.PodNameLabel] != pod.Name {
		return nil
	}
	ports := httpPorts(s, pod)
	if len(ports) == 0 {
		return nil
	}
	short := pod.Name + "." + s.Name
	long := short + "." + s.Namespace
	entry := func(name string, exportTo []string, hosts ...string) *networkingv1.ServiceEntry {
		e := &networkingv1.ServiceEntry{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
		e.Spec.Hosts, e.Spec.Ports, e.Spec.ExportTo = hosts, ports, exportTo
		e.Spec.Location = networkingapi.ServiceEntry_MESH_INTERNAL
		e.Spec.Resolution = networkingapi.ServiceEntry_STATIC
		e.Spec.WorkloadSelector = &networkingapi.WorkloadSelector{
			Labels: map[string]string{model.PodNameLabel: pod.Name},
		}
		return e
	}
	domain := model.DefaultMesh().Domain
	return []*networkingv1.ServiceEntry{
		entry(short+".lateen-local", exportsOf(s), long+".svc."+domain, long+".svc", long),
		entry(short+".lateen-local-short", []string{"."}, short),
	}
}

// httpPorts returns the ports of a Service that surely are HTTP, with their numbers at the pod.
func httpPorts(s *corev1.Service, pod *corev1.Pod) []*networkingapi.ServicePort {
	var ports []*networkingapi.ServicePort
	for _, p := range s.Spec.Ports {
		protocol := convert.ServicePortProtocol(p)
		target, found := targetPort(p, pod)
		if !found || !protocol.IsHTTP() {
			continue
		}
		ports = append(ports, &networkingapi.ServicePort{
			Number: uint32(p.Port), Name: p.Name, Protocol: protocol.String(), TargetPort: uint32(target),
		})
	}
	return ports
}

// exportsOf returns the namespaces that a Service is exported to, as ServiceEntries say it.
func exportsOf(s *corev1.Service) []string {
	var namespaces []string
	for word := range strings.SplitSeq(s.Annotations[kinds.ExportAnnotation], ",") {
		if word = strings.TrimSpace(word); word != "" {
			namespaces = append(namespaces, word)
		}
	}
	return namespaces
}

// eachPodName visits the entries of all pods, in order.
func (l *loop) eachPodName(visit func(*networkingv1.ServiceEntry)) {
	l.in.eachService(func(s *corev1.Service) {
		for _, p := range l.sortedPods() {
			for _, e := range podNames(s, p.object) {
				visit(e)
			}
		}
	})
}
