package kinds

import "slices"

// GatewayAPIGroup is the group of the Gateway API.
const GatewayAPIGroup = "gateway.networking.k8s.io"

// Reported returns the kinds of Istio's and the Gateway API that Lateen does not read. The
// Kubernetes source asks for the names of their objects, so that each of them is reported. Their
// descriptors have no Go type.
//
// IstioOperator is left out: it has no effect on traffic by itself, and other programs own it.
func Reported() []*Descriptor { return slices.Clone(tableIndex().reported) }

// WithStatusOf returns the descriptor of a kind that Lateen reads or reports. For others no field
// is set.
func WithStatusOf(k Kind) *Descriptor {
	x := tableIndex()
	for _, d := range x.reported {
		if d.Kind == k {
			return d
		}
	}
	return Of(k)
}

// reported has a line for each kind that is reported. Its versions are in the order in which API
// servers are asked.
func reported() []Descriptor {
	return []Descriptor{
		gatewayAPIReported("UDPRoute", "udproutes", "v1", "v1alpha2"),
	}
}

// gatewayAPIReported makes the line of a kind of the Gateway API. Lateen writes no status of it.
func gatewayAPIReported(kind Kind, resource string, versions ...string) Descriptor {
	return Descriptor{
		Kind: kind, API: API{Group: GatewayAPIGroup, Versions: versions, Custom: true}, Resource: resource,
		Watch: Watch{Optional: true},
	}
}
