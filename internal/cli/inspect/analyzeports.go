package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/source"
)

// ported is a field of a policy that holds a port of workloads.
type ported struct {
	source.Change
	path     string
	port     int32
	selector labels.Selector
}

// portsByName returns the ports of a Pod's containers by their names, or numbers without one.
func portsByName(spec *corev1.PodSpec) map[string]int32 {
	ports := map[string]int32{}
	for _, c := range spec.Containers {
		for _, p := range c.Ports {
			ports[cmp.Or(p.Name, strconv.Itoa(int(p.ContainerPort)))] = p.ContainerPort
		}
	}
	return ports
}

// portsOfRules returns the ports of an AuthorizationPolicy. Those that are no numbers are reported
// elsewhere.
func portsOfRules(c source.Change, o *securityv1.AuthorizationPolicy) (found []ported) {
	selector := labels.Set(o.Spec.GetSelector().GetMatchLabels()).AsSelector()
	for i, rule := range o.Spec.GetRules() {
		for j, to := range rule.GetTo() {
			for field, ports := range map[string][]string{
				"ports": to.GetOperation().GetPorts(), "notPorts": to.GetOperation().GetNotPorts(),
			} {
				for k, text := range ports {
					if port, err := strconv.ParseUint(text, 10, 16); err == nil {
						path := fmt.Sprintf("spec.rules[%d].to[%d].operation.%s[%d]", i, j, field, k)
						found = append(found, ported{c, path, int32(port), selector})
					}
				}
			}
		}
	}
	return found
}

// portsOfModes returns the ports of a PeerAuthentication.
func portsOfModes(c source.Change, o *securityv1.PeerAuthentication) (found []ported) {
	selector := labels.Set(o.Spec.GetSelector().GetMatchLabels()).AsSelector()
	for port := range o.Spec.GetPortLevelMtls() {
		path := fmt.Sprintf("spec.portLevelMtls[%d]", port)
		found = append(found, ported{c, path, int32(min(port, 1<<16)), selector})
	}
	return found
}

// servicePorts returns the ports of policies that are a Service's, where the workload has another
// one behind it: policies see the port at which the workload is called.
func (w *whole) servicePorts() (problems []source.Problem) {
	for _, p := range w.ported {
		if target := w.behind(p); target != 0 {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Object: p.Key, Origin: p.Origin, Path: p.path, Value: fmt.Sprint(p.port),
				Message: "is the port of a Service, and no workload that this is for is called at it",
				Want:    fmt.Sprintf("%d, the port of the workload", target),
			})
		}
	}
	return problems
}

// behind returns the port of a workload to which a Service leads from a policy's port; 0 if there
// is none, or if a workload has the port itself.
func (w *whole) behind(p ported) (target int32) {
	for _, pod := range w.pods {
		if pod.namespace != p.Key.Namespace && p.Key.Namespace != w.root || !p.selector.Matches(pod.labels) {
			continue
		}
		for port := range w.portsTo(pod) {
			at := targetAt(port, pod)
			if at == p.port || slices.Contains(slices.Collect(maps.Values(pod.ports)), p.port) {
				return 0
			}
			if port.Port == p.port && at != 0 {
				target = at
			}
		}
	}
	return target
}

// targetAt returns the port of a workload that a Service's port leads to; 0 for a name that it does
// not have.
func targetAt(port corev1.ServicePort, pod labelled) int32 {
	switch {
	case port.TargetPort.StrVal != "":
		return pod.ports[port.TargetPort.StrVal]
	case port.TargetPort.IntVal != 0:
		return port.TargetPort.IntVal
	}
	return port.Port
}
