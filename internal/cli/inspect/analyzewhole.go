package inspect

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	telemetryv1 "istio.io/client-go/pkg/apis/telemetry/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// whole has what only a look at all objects shows: what selects no workload, and ports of Gateways
// that no Service leads to. A control plane would have to ask all Pods again for each of them.
type whole struct {
	root      string // the root namespace, whose objects are for all namespaces
	domain    string // of Services
	pods      []labelled
	seen      map[string]bool               // the workloads among pods
	services  map[string][]selectingService // by namespace
	gateways  []gateway
	selecting []selecting
	hosts     []placedHost
	naming    []naming
	claims    claimRules
	ported    []ported
	exports   exports
	mtls      mtlsRules
	// unread are the namespaces with workloads that are not read: nobody knows their labels.
	unread map[string]bool
}

// labelled is a workload, with the numbers of its containers' ports by name.
type labelled struct {
	namespace string
	labels    labels.Set
	ports     map[string]int32
}

// selectingService is a Service with a selector.
type selectingService struct {
	host     model.Host
	selector labels.Selector
	ports    []corev1.ServicePort
}

// gateway is a Gateway of Istio that is for some workloads.
type gateway struct {
	source.Change
	selector labels.Selector
	servers  []*networking.Server
}

// selecting is an object that is for some workloads.
type selecting struct {
	source.Change
	path string
	want labels.Set
}

// placedHost is a host of a Service or ServiceEntry, or one that a VirtualService has: Sidecars may
// name it.
type placedHost struct {
	namespace string
	host      model.Host
	routed    bool
}

// naming is an object that names hosts of one namespace, or of all ("*").
type naming struct {
	source.Change
	path, value string
	namespace   string
	host        model.Host
}

// look notes an object.
func (w *whole) look(c source.Change) {
	selects := func(path string, want map[string]string) {
		if len(want) > 0 {
			w.selecting = append(w.selecting, selecting{c, path, want})
		}
	}
	if template := templateOf(c.Object); template != nil {
		w.addPod(labelled{c.Key.Namespace, template.Labels, portsByName(&template.Spec)})
	}
	switch o := c.Object.(type) {
	case *corev1.Pod:
		w.addPod(labelled{o.Namespace, o.Labels, portsByName(&o.Spec)})
	case *networkingv1.WorkloadEntry:
		w.addPod(labelled{namespace: o.Namespace, labels: o.Spec.GetLabels()})
	case *corev1.Service:
		w.addService(o)
		w.exports.lookAtService(c, o.Annotations)
		w.hosts = append(w.hosts, placedHost{namespace: o.Namespace, host: w.fullName(o.Name, o.Namespace)})
	case *corev1.Namespace:
		w.exports.addNamespace(o.Name)
	case *networkingv1.ServiceEntry:
		w.exports.look(c, "spec.exportTo", o.Spec.GetExportTo())
		for _, host := range o.Spec.GetHosts() {
			w.hosts = append(w.hosts, placedHost{namespace: o.Namespace, host: model.Host(strings.ToLower(host))})
		}
	case *networkingv1.VirtualService:
		w.claims.look(c, o)
		w.exports.look(c, "spec.exportTo", o.Spec.GetExportTo())
		for _, host := range o.Spec.GetHosts() {
			w.hosts = append(w.hosts, placedHost{o.Namespace, w.fullName(host, o.Namespace), true})
		}
	case *networkingv1.DestinationRule:
		w.exports.look(c, "spec.exportTo", o.Spec.GetExportTo())
		host := w.fullName(o.Spec.GetHost(), o.Namespace)
		w.naming = append(w.naming, naming{c, "spec.host", o.Spec.GetHost(), "*", host})
		w.mtls.lookAtRule(c, o, host)
	case *networkingv1.Gateway:
		if selector := o.Spec.GetSelector(); len(selector) > 0 {
			w.gateways = append(w.gateways, gateway{c, labels.SelectorFromSet(selector), o.Spec.GetServers()})
		}
	case *networkingv1.Sidecar:
		w.lookAtEgress(c, o)
		selects("spec.workloadSelector.labels", o.Spec.GetWorkloadSelector().GetLabels())
	case *securityv1.AuthorizationPolicy:
		w.ported = append(w.ported, portsOfRules(c, o)...)
		selects("spec.selector.matchLabels", o.Spec.GetSelector().GetMatchLabels())
	case *securityv1.PeerAuthentication:
		w.ported = append(w.ported, portsOfModes(c, o)...)
		w.mtls.policies = append(w.mtls.policies, o)
		selects("spec.selector.matchLabels", o.Spec.GetSelector().GetMatchLabels())
	case *securityv1.RequestAuthentication:
		w.claims.tokens = append(w.claims.tokens, o)
		selects("spec.selector.matchLabels", o.Spec.GetSelector().GetMatchLabels())
	case *telemetryv1.Telemetry:
		selects("spec.selector.matchLabels", o.Spec.GetSelector().GetMatchLabels())
	case *networkingv1beta1.ProxyConfig:
		selects("spec.selector.matchLabels", o.Spec.GetSelector().GetMatchLabels())
	}
}

// isGateway reports whether a Gateway is for Pods with some labels.
func (w *whole) isGateway(pod map[string]string) bool {
	return slices.ContainsFunc(w.gateways, func(g gateway) bool { return g.selector.Matches(labels.Set(pod)) })
}

// addPod notes a workload, of Pods that are alike the first.
func (w *whole) addPod(pod labelled) {
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	key := fmt.Sprint(pod.namespace, " ", pod.labels, pod.ports)
	if !w.seen[key] {
		w.seen[key] = true
		w.pods = append(w.pods, pod)
	}
}

// addService notes a Service that selects Pods.
func (w *whole) addService(o *corev1.Service) {
	if w.services == nil {
		w.services = map[string][]selectingService{}
	}
	if len(o.Spec.Selector) > 0 {
		selector := labels.SelectorFromSet(o.Spec.Selector)
		svc := selectingService{w.fullName(o.Name, o.Namespace), selector, o.Spec.Ports}
		w.services[o.Namespace] = append(w.services[o.Namespace], svc)
	}
}

// portsTo yields the ports of the Services that select a workload.
func (w *whole) portsTo(pod labelled) iter.Seq[corev1.ServicePort] {
	return func(yield func(corev1.ServicePort) bool) {
		for _, svc := range w.services[pod.namespace] {
			if !svc.selector.Matches(pod.labels) {
				continue
			}
			for _, port := range svc.ports {
				if !yield(port) {
					return
				}
			}
		}
	}
}

// fullName returns the host that a name without a dot stands for in a namespace.
func (w *whole) fullName(name, namespace string) model.Host {
	if name != "*" && !strings.Contains(name, ".") {
		name += "." + namespace + ".svc." + w.domain
	}
	return model.Host(strings.ToLower(name))
}

// lookAtEgress notes the hosts that a Sidecar lets in. Whole namespaces may be empty.
func (w *whole) lookAtEgress(c source.Change, o *networkingv1.Sidecar) {
	for i, listener := range o.Spec.GetEgress() {
		for j, text := range listener.GetHosts() {
			namespace, host, ok := strings.Cut(text, "/")
			if !ok || host == "*" || strings.HasPrefix(namespace, "~") || namespace == "." && o.Namespace == w.root {
				continue
			}
			if namespace == "." {
				namespace = o.Namespace
			}
			path := fmt.Sprintf("spec.egress[%d].hosts[%d]", i, j)
			w.naming = append(w.naming, naming{c, path, text, namespace, model.Host(strings.ToLower(host))})
		}
	}
}

// lookAtUnread notes the workloads of kinds that are not read, which are among the problems.
func (w *whole) lookAtUnread(problems []source.Problem) {
	w.unread = map[string]bool{}
	for _, p := range problems {
		switch p.Object.Kind.Name() {
		case "ReplicaSet", "ReplicationController", "CronJob":
			w.unread[p.Object.Namespace] = true
		}
	}
}

// found returns what is wrong.
func (w *whole) found() []source.Problem {
	var problems []source.Problem
	for _, s := range w.selecting {
		if !w.knowsAll(s.Key.Namespace) || w.selectsAny(s.Key.Namespace, s.want) {
			continue
		}
		problems = append(problems, source.Problem{
			Severity: source.Warning, Object: s.Key, Origin: s.Origin, Path: s.path, Value: s.want.String(),
			Message: "selects no workload, so that it has no effect", Want: "labels of the Pods that it is for",
		})
	}
	for _, n := range w.naming {
		if w.services != nil && !w.isThere(n) {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Object: n.Key, Origin: n.Origin, Path: n.path, Value: n.value,
				Message: "no Service or ServiceEntry has such a host, so that this has no effect",
				Want:    "the full name of a Service, or a host of a ServiceEntry",
			})
		}
	}
	problems = slices.Concat(problems, w.unprovenClaims(), w.servicePorts(), w.mtlsConflicts())
	for _, g := range w.gateways {
		problems = append(problems, w.unreachedPorts(g)...)
	}
	return problems
}

// isThere reports whether a named host is one of a Service or ServiceEntry.
func (w *whole) isThere(n naming) bool {
	return slices.ContainsFunc(w.hosts, func(h placedHost) bool {
		return (n.namespace == "*" || n.namespace == h.namespace) && n.host.Overlaps(h.host) &&
			(!h.routed || n.Key.Kind == kinds.Sidecar)
	})
}

// knowsAll reports whether the labels of all workloads that an object of a namespace may be for are
// known. Where there is no workload at all, they are elsewhere.
func (w *whole) knowsAll(namespace string) bool {
	if namespace == w.root {
		return len(w.pods) > 0 && len(w.unread) == 0
	}
	return !w.unread[namespace] &&
		slices.ContainsFunc(w.pods, func(p labelled) bool { return p.namespace == namespace })
}

// selectsAny reports whether an object of a namespace selects a workload.
func (w *whole) selectsAny(namespace string, want labels.Set) bool {
	return slices.ContainsFunc(w.pods, func(p labelled) bool {
		return (namespace == w.root || p.namespace == namespace) && want.AsSelector().Matches(p.labels)
	})
}

// unreachedPorts returns the servers of a Gateway whose port no Service of its workloads has,
// although there are such Services.
func (w *whole) unreachedPorts(g gateway) (problems []source.Problem) {
	ports := w.portsOf(g.selector)
	if len(ports) == 0 {
		return nil
	}
	for i, server := range g.servers {
		number := strconv.FormatUint(uint64(server.GetPort().GetNumber()), 10)
		if slices.Contains(ports, number) {
			continue
		}
		problems = append(problems, source.Problem{
			Severity: source.Warning, Object: g.Key, Origin: g.Origin,
			Path: fmt.Sprintf("spec.servers[%d].port.number", i), Value: number,
			Message: "no Service of the gateway's Pods has this port, so that nobody reaches it by a Service",
			Want:    "one of " + strings.Join(ports, ", "),
		})
	}
	return problems
}

// portsOf returns the ports of the Services that lead to the workloads of a selector, and the ports
// at the workloads that they lead to.
func (w *whole) portsOf(selector labels.Selector) []string {
	var ports []string
	for _, pod := range w.pods {
		if !selector.Matches(pod.labels) {
			continue
		}
		for p := range w.portsTo(pod) {
			ports = append(ports, strconv.Itoa(int(p.Port)))
			if p.TargetPort.IntValue() > 0 {
				ports = append(ports, p.TargetPort.String())
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// unserved returns the Gateways that select no workload. Where there is no workload, or one whose
// labels are not read, nothing is known about that.
func (w *whole) unserved() (found []source.Problem) {
	if len(w.pods) == 0 || len(w.unread) > 0 {
		return nil
	}
	for _, g := range w.gateways {
		if !slices.ContainsFunc(w.pods, func(pod labelled) bool { return g.selector.Matches(pod.labels) }) {
			found = append(found, source.Problem{
				Severity: source.Warning, Object: g.Key, Origin: g.Origin,
				Path: "spec.selector", Value: g.selector.String(),
				Message: "selects none of the workloads in the manifests", Want: "the labels of the Pods of a gateway",
			})
		}
	}
	return found
}
