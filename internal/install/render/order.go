package render

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// order is that in which kinds are applied: what others need comes first, and webhooks come last,
// because they ask the Deployment.
var order = []string{
	"Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap", "ClusterRole",
	"ClusterRoleBinding", "Role", "RoleBinding", "Service", "PeerAuthentication", "DestinationRule", "Deployment",
	"HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
}

// Sort puts objects in the order in which to apply them. Those of other kinds come last.
func Sort(objects []*unstructured.Unstructured) {
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.GetNamespace(), b.GetNamespace()),
			cmp.Compare(a.GetName(), b.GetName()))
	})
}

func place(o *unstructured.Unstructured) int {
	if n := slices.Index(order, o.GetKind()); n >= 0 {
		return n
	}
	return len(order)
}
