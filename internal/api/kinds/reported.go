package kinds

import "slices"

// GatewayAPIGroup is the group of the Gateway API.
const GatewayAPIGroup = "gateway.networking.k8s.io"

// Reported returns the kinds of Istio's and the Gateway API that Lateen does not read. The
// Kubernetes source asks for the names of their objects, so that each of them is reported. Their
// descriptors have no Go type.
//
// GatewayClass and IstioOperator are left out: they have no effect on traffic by themselves, and
// other programs own them.
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
		istioReported("EnvoyFilter", "envoyfilters", NetworkingGroup, "v1alpha3"),
		istioReported("ProxyConfig", "proxyconfigs", NetworkingGroup, "v1beta1", "v1"),
		istioReported("WorkloadGroup", "workloadgroups", NetworkingGroup, "v1", "v1beta1", "v1alpha3"),
		istioReported("Telemetry", "telemetries", TelemetryGroup, "v1", "v1alpha1"),
		istioReported("TrafficExtension", "trafficextensions", ExtensionsGroup, "v1alpha1"),
		istioReported("WasmPlugin", "wasmplugins", ExtensionsGroup, "v1alpha1"),

		gatewayAPI("BackendTLSPolicy", "backendtlspolicies", "v1", "v1alpha3", "v1alpha2"),
		gatewayAPI("Gateway", "gateways", "v1", "v1beta1"),
		gatewayAPI("GRPCRoute", "grpcroutes", "v1", "v1alpha2"),
		gatewayAPI("HTTPRoute", "httproutes", "v1", "v1beta1"),
		gatewayAPI("ListenerSet", "listenersets", "v1"),
		gatewayAPI("ReferenceGrant", "referencegrants", "v1beta1", "v1", "v1alpha2"),
		gatewayAPI("TCPRoute", "tcproutes", "v1alpha2"),
		gatewayAPI("TLSRoute", "tlsroutes", "v1", "v1alpha3", "v1alpha2"),
		gatewayAPI("UDPRoute", "udproutes", "v1alpha2"),
	}
}

func istioReported(kind Kind, resource, group string, versions ...string) Descriptor {
	return Descriptor{
		Kind: kind, API: API{Group: group, Versions: versions, Custom: true}, Resource: resource,
		Watch: Watch{Revisioned: true, Optional: true}, Status: Conditions,
	}
}

// gatewayAPI makes the line of a kind of the Gateway API. Its status belongs to the controller that
// its GatewayClass names, so Lateen writes none. The group is part of the name of a kind that Istio
// has too.
func gatewayAPI(kind Kind, resource string, versions ...string) Descriptor {
	if kind == Gateway {
		kind += "." + GatewayAPIGroup
	}
	return Descriptor{
		Kind: kind, API: API{Group: GatewayAPIGroup, Versions: versions, Custom: true}, Resource: resource,
		Watch: Watch{Optional: true},
	}
}
