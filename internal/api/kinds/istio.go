package kinds

import "k8s.io/apimachinery/pkg/runtime/schema"

// Istio tells where the API server serves a kind whose status has conditions; ok is false for others.
func (k Kind) Istio() (resource schema.GroupVersionResource, ok bool) {
	d := Of(k)
	if d.Status != Conditions {
		return schema.GroupVersionResource{}, false
	}
	return d.GroupVersionResource(), true
}
