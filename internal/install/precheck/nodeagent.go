package precheck

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// nodeAgentLabel is what Istio's chart cni puts on the node agent of its CNI plugin.
const nodeAgentLabel, nodeAgentName = "k8s-app", "istio-cni-node"

// redirects is what the verdict on a node agent needs of an injection.
type redirects interface {
	// HasPlugin reports whether Pods are injected for a CNI plugin.
	HasPlugin() bool
}

// NodeAgent tells of the node agent of Istio's CNI plugin where the injection is not for it. It
// reports false for all other objects.
func NodeAgent(o *unstructured.Unstructured, injection redirects) (Verdict, bool) {
	v := Verdict{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	if o.GetKind() != "DaemonSet" || o.GetLabels()[nodeAgentLabel] != nodeAgentName || injection.HasPlugin() {
		return v, false
	}
	v.Differences = []Finding{{
		Field: "metadata.labels[" + nodeAgentLabel + "]", Value: nodeAgentName,
		Why: "Istio's CNI plugin is on the nodes, and Pods would be injected without it, with an init container that " +
			"needs NET_ADMIN; want pilot.cni.enabled=true (docs/guides/cni.md)",
	}}
	return v, true
}
