package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// poll is how often a condition is looked at that is waited for.
const poll = 500 * time.Millisecond

// Apply carries out the steps of a plan, in their order. told is called before each that changes
// something.
func (c *Cluster) Apply(ctx context.Context, steps []Step, force bool, told func(Step)) error {
	for _, s := range steps {
		if s.Action == Keep || s.Action == Same {
			continue
		}
		told(s)
		if s.Action == Remove {
			if err := c.remove(ctx, s.Object); err != nil {
				return err
			}
			continue
		}
		if err := c.awaitKind(ctx, s.Object); err != nil {
			return fmt.Errorf("%s: %w", Name(s.Object), err)
		}
		if s.TakenOver {
			if err := c.takeOver(ctx, s.Live); err != nil {
				return fmt.Errorf("%s: %w", Name(s.Object), err)
			}
		}
		if _, err := c.send(ctx, s.Object, metav1.ApplyOptions{Force: force || s.TakenOver}); err != nil {
			return fmt.Errorf("%s: %w", Name(s.Object), err)
		}
	}
	c.mapper.Reset() // kinds may be new
	return nil
}

// awaitKind waits until the API server serves the kind of an object, which an earlier step may have
// created.
func (c *Cluster) awaitKind(ctx context.Context, o *unstructured.Unstructured) error {
	_, err := c.on(o, o.GetNamespace())
	for errors.Is(err, ErrNoKind) {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(poll):
		}
		c.mapper.Reset()
		_, err = c.on(o, o.GetNamespace())
	}
	return err
}

// removable are the kinds of which this program removes objects, in the order in which it does:
// webhooks first, because they ask what goes after them.
var removable = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Version: "v1", Kind: "Service"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Secret"},
}

// Leftovers returns the steps that remove what this program has applied for a revision and that is
// not among the objects. With no objects that is all of it. Tags that somebody has set stay.
func (c *Cluster) Leftovers(ctx context.Context, objects []*unstructured.Unstructured, revision string,
) ([]Step, error) {
	var steps []Step
	selector := labels.SelectorFromSet(labels.Set{OwnerLabel: revision}).String()
	for _, kind := range removable {
		client, _, err := c.GetClientFor(kind.GroupVersion().String(), kind.Kind)
		if err != nil {
			continue // no such kind, so no object
		}
		all, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("looking for what is installed: %w", err)
		}
		for i := range all.Items {
			o := &all.Items[i]
			if !isOthersTag(o, revision) && !contains(objects, o) {
				steps = append(steps, Step{Object: o, Live: o, Action: Remove})
			}
		}
	}
	return steps, nil
}

func contains(objects []*unstructured.Unstructured, o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(x *unstructured.Unstructured) bool { return Name(x) == Name(o) })
}

// Revisions returns the revisions that this program has installed, with the namespace of each.
func (c *Cluster) Revisions(ctx context.Context) (map[string]string, error) {
	client, _, err := c.GetClientFor("apps/v1", "Deployment")
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: OwnerLabel + ",app.kubernetes.io/name=lateen"})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for i := range list.Items {
		all[list.Items[i].GetLabels()[OwnerLabel]] = list.Items[i].GetNamespace()
	}
	return all, nil
}

func (c *Cluster) remove(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := c.on(o, o.GetNamespace())
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w", Name(o), err)
	}
	return nil
}

// RemoveNamed removes an object if it is there.
func (c *Cluster) RemoveNamed(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return c.remove(ctx, o)
}

// Wait waits until the objects work: kinds are served, and all replicas of Deployments are ready.
// told is called when what is waited for changes.
func (c *Cluster) Wait(ctx context.Context, objects []*unstructured.Unstructured, told func(string)) error {
	last := ""
	tell := func(now string) {
		if now != last {
			told(now)
			last = now
		}
	}
	for _, o := range objects {
		why := ""
		ready := func(ctx context.Context) (bool, error) {
			live, err := c.get(ctx, o)
			if why = Unready(live); err != nil {
				why = err.Error() // an API server may be away for a moment
			}
			if why != "" {
				tell(Name(o) + ": " + why)
			}
			return why == "", nil
		}
		if err := wait.PollUntilContextCancel(ctx, poll, true, ready); err != nil {
			return fmt.Errorf("%s: %s, and the time is up", Name(o), why)
		}
	}
	return nil
}

// Unready says why an object of the cluster does not work yet; empty: it does.
func Unready(live *unstructured.Unstructured) string {
	if live == nil {
		return "is missing"
	}
	switch live.GetKind() {
	case "CustomResourceDefinition":
		if !hasCondition(live, "Established") {
			return "is not served yet"
		}
	case "Deployment":
		return unreadyReplicas(live)
	}
	return ""
}

func unreadyReplicas(live *unstructured.Unstructured) string {
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(live.Object, fields...)
		return n
	}
	want := number("spec", "replicas")
	updated, ready := number("status", "updatedReplicas"), number("status", "availableReplicas")
	if number("status", "observedGeneration") < live.GetGeneration() {
		return "is not looked at yet"
	}
	if updated < want {
		return fmt.Sprintf("%d of %d replicas are new", updated, want)
	}
	if number("status", "replicas") > updated {
		return fmt.Sprintf("%d old replicas still run", number("status", "replicas")-updated)
	}
	if ready < want {
		return fmt.Sprintf("%d of %d replicas are ready", ready, want)
	}
	return ""
}

func hasCondition(o *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == name && c["status"] == "True" {
			return true
		}
	}
	return false
}
