package mirror

import (
	"cmp"
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Manifests still have Endpoints, whatever Kubernetes recommends in their place.
type (
	endpoints = corev1.Endpoints       //nolint:staticcheck // deprecated since Kubernetes 1.33, and read here
	subset    = corev1.EndpointSubset  //nolint:staticcheck // as above
	address   = corev1.EndpointAddress //nolint:staticcheck // as above
)

func endpointsOf(c source.Change) *endpoints {
	e, _ := c.Object.(*endpoints)
	return e
}

// isMirrored reports whether Kubernetes would mirror Endpoints by their marks.
func isMirrored(c source.Change) bool {
	e := endpointsOf(c)
	if e == nil || e.Labels[discoveryv1.LabelSkipMirror] == "true" {
		return false
	}
	_, isLock := e.Annotations[leaderAnnotation]
	return !isLock
}

// sliceOf returns the addresses of one family in a subset, without a name.
func sliceOf(e *endpoints, s *subset, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Labels: map[string]string{}},
		AddressType: family,
	}
	maps.Copy(slice.Labels, e.Labels)
	slice.Labels[discoveryv1.LabelServiceName], slice.Labels[discoveryv1.LabelManagedBy] = e.Name, managedBy
	for i := range s.Ports {
		p := s.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol,
		})
	}
	add := func(addresses []address, ready bool) {
		for _, a := range addresses {
			if familyOf(a.IP) == family {
				slice.Endpoints = append(slice.Endpoints, endpointOf(a, ready))
			}
		}
	}
	add(s.Addresses, true)
	add(s.NotReadyAddresses, false)
	return slice
}

// familyOf returns the family of an address; that of IPv4 for one that is none, which the
// conversion refuses.
func familyOf(text string) discoveryv1.AddressType {
	if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

func endpointOf(a address, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e
}
