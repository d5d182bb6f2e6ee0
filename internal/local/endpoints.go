package local

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// backend is a pod with what its endpoints depend on.
type backend struct {
	pod         *corev1.Pod
	ready       bool
	terminating bool
	closed      []int32 // ports at which its Envoy should listen and does not yet
}

// selects reports whether a Service selects a pod.
func selects(s *corev1.Service, pod *corev1.Pod) bool {
	return hasEndpoints(s) && s.Namespace == pod.Namespace &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels))
}

func hasEndpoints(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

// endpointSlices returns the slices of a Service. As in a cluster, pods whose named ports have
// different numbers are in different slices. There is always at least one, named SERVICE-local.
func endpointSlices(s *corev1.Service, backends []backend) []*discoveryv1.EndpointSlice {
	if !hasEndpoints(s) {
		return nil
	}
	type group struct {
		ports     []discoveryv1.EndpointPort
		endpoints []discoveryv1.Endpoint
	}
	groups := map[string]*group{}
	for _, b := range backends {
		if b.pod.Status.PodIP == "" || !selects(s, b.pod) {
			continue
		}
		ports := resolvePorts(s, b.pod)
		key := portsKey(ports)
		if groups[key] == nil {
			groups[key] = &group{ports: ports}
		}
		groups[key].endpoints = append(groups[key].endpoints, endpointOf(s, b, ports))
	}
	if len(groups) == 0 {
		groups[""] = &group{}
	}
	var keys []string
	for k := range groups {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]*discoveryv1.EndpointSlice, 0, len(groups))
	for i, k := range keys {
		name := s.Name + "-local"
		if i > 0 {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
		g := groups[k]
		slices.SortFunc(g.endpoints, func(a, b discoveryv1.Endpoint) int {
			return cmp.Compare(a.TargetRef.Name, b.TargetRef.Name)
		})
		out = append(out, sliceOf(s, name, g.ports, g.endpoints))
	}
	return out
}

func sliceOf(
	s *corev1.Service, name string, ports []discoveryv1.EndpointPort, eps []discoveryv1.Endpoint,
) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: s.Name,
				discoveryv1.LabelManagedBy:   "lateen-local",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       ports,
		Endpoints:   eps,
	}
}

func endpointOf(s *corev1.Service, b backend, ports []discoveryv1.EndpointPort) discoveryv1.Endpoint {
	serving := b.ready && !slices.ContainsFunc(ports, func(p discoveryv1.EndpointPort) bool {
		return slices.Contains(b.closed, *p.Port)
	})
	ready := serving && !b.terminating || s.Spec.PublishNotReadyAddresses
	e := discoveryv1.Endpoint{
		Addresses:  []string{b.pod.Status.PodIP},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &b.terminating},
		TargetRef: &corev1.ObjectReference{
			Kind: string(kinds.Pod), Namespace: b.pod.Namespace, Name: b.pod.Name, UID: b.pod.UID,
		},
		NodeName: &b.pod.Spec.NodeName,
	}
	if zone := localityOf(b.pod).GetZone(); zone != "" {
		e.Zone = &zone
	}
	if b.pod.Spec.Hostname != "" && b.pod.Spec.Subdomain == s.Name {
		e.Hostname = &b.pod.Spec.Hostname
	}
	return e
}

// resolvePorts returns the Service's ports with the numbers of this pod. A named port that the pod
// lacks is left out.
func resolvePorts(s *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, p := range s.Spec.Ports {
		port, ok := targetPort(p, pod)
		if !ok {
			continue
		}
		protocol := cmp.Or(p.Protocol, corev1.ProtocolTCP)
		out = append(out, discoveryv1.EndpointPort{
			Name:        &p.Name,
			Port:        &port,
			Protocol:    &protocol,
			AppProtocol: p.AppProtocol,
		})
	}
	return out
}

func targetPort(p corev1.ServicePort, pod *corev1.Pod) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		return cmp.Or(p.TargetPort.IntVal, p.Port), true
	}
	for _, c := range pod.Spec.Containers {
		for _, cp := range c.Ports {
			if cp.Name == p.TargetPort.StrVal &&
				cmp.Or(cp.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP) {
				return cp.ContainerPort, true
			}
		}
	}
	return 0, false
}

func portsKey(ports []discoveryv1.EndpointPort) string {
	key := ""
	for _, p := range ports {
		key += fmt.Sprintf("%s/%s/%05d,", *p.Name, *p.Protocol, *p.Port)
	}
	return key
}

// targetPorts returns the TCP ports of the pod that any of the services use.
func targetPorts(services map[string]*corev1.Service, pod *corev1.Pod) []int32 {
	var out []int32
	for _, s := range services {
		if !selects(s, pod) {
			continue
		}
		for _, p := range resolvePorts(s, pod) {
			if *p.Protocol == corev1.ProtocolTCP {
				out = append(out, *p.Port)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
