package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// attempts are how often an object is sent whose failure policies change meanwhile.
const attempts = 3

// send applies an object. The leader of the control plane sets the failure policies of its webhooks
// at any time, also between the moment in which the object was rendered with those of then and this
// one: the object takes what is in force.
func (c *Cluster) send(ctx context.Context, o *unstructured.Unstructured, options metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	client, err := c.on(o, o.GetNamespace())
	if err != nil {
		return nil, err
	}
	options.FieldManager = manager
	for attempt := 1; ; attempt++ {
		result, err := client.Apply(ctx, o.GetName(), o, options)
		if attempt == attempts || !apierrors.IsConflict(err) {
			return result, err
		}
		live, unread := c.get(ctx, o)
		if unread != nil || live == nil || !takeFailurePolicies(o, live) {
			return nil, err
		}
	}
}

// takeFailurePolicies gives the webhooks of a configuration the failure policies of those of the
// same names in the cluster, and reports whether any was another one.
func takeFailurePolicies(o, live *unstructured.Unstructured) (changed bool) {
	policies := map[string]string{}
	for _, w := range webhooks(live) {
		policies[text(w, "name")] = text(w, "failurePolicy")
	}
	for _, w := range webhooks(o) {
		policy := policies[text(w, "name")]
		if policy != "" && policy != text(w, "failurePolicy") {
			w["failurePolicy"] = policy
			changed = true
		}
	}
	return changed
}

// webhooks returns those of a configuration of webhooks, not copied; no other object has any.
func webhooks(o *unstructured.Unstructured) (all []map[string]any) {
	list, _ := o.Object["webhooks"].([]any)
	for _, item := range list {
		if w, ok := item.(map[string]any); ok {
			all = append(all, w)
		}
	}
	return all
}

func text(w map[string]any, field string) string {
	s, _ := w[field].(string)
	return s
}
