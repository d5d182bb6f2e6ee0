package registration

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

// Replicas finds the Pods that answer the webhook beside one's own.
type Replicas struct {
	Pods typedcorev1.PodsGetter
	// Namespace and Labels select the Pods of all replicas; Own is the name of one's own.
	Namespace string
	Labels    map[string]string
	Own       string
}

// Ready reports whether another replica is ready and does not stop.
//
// It asks for Pods, not for EndpointSlices, which follow a moment later. Of two replicas that stop
// at the same time, at least one sees that the other one stops: a Pod has its deletion timestamp
// before its process is told. So the last one finds nobody.
func (r Replicas) Ready(ctx context.Context) (bool, error) {
	pods, err := r.Pods.Pods(r.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(r.Labels).String(),
	})
	if err != nil {
		return false, fmt.Errorf("the Pods of the other replicas: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Name != r.Own && pod.DeletionTimestamp == nil && ready(pod) {
			return true, nil
		}
	}
	return false, nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Yield sets the policy to Ignore when this replica stops in good order and no other one is ready,
// since nothing of Istio's API could be stored until one is. The next leader sets Fail again once
// its webhook answers. If the replicas cannot be counted, nobody else is taken to be ready.
func Yield(ctx context.Context, o Options, others Replicas) {
	if o.Policy != admissionregistrationv1.Fail {
		return
	}
	answered, err := others.Ready(ctx)
	if answered {
		return
	}
	if err != nil {
		o.Log.Warn("it is not known whether another replica answers the webhook", "error", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { return o.ignore(ctx) })
	switch {
	case err == nil:
		o.Log.Info("the last replica stops: objects are stored unchecked until one is ready", "configuration", o.Name)
	case !apierrors.IsNotFound(err):
		o.Metrics.Admission.ConfigUpdateErrors.WithLabelValues(
			strings.ToLower(string(apierrors.ReasonForError(err))),
		).Inc()
		o.Log.Error("the webhook's configuration keeps failurePolicy Fail: no object of Istio's API can be stored "+
			"until a replica is ready", "configuration", o.Name, "error", err)
	}
}

// ignore sets the policy of all webhooks to Ignore.
func (o *Options) ignore(ctx context.Context) error {
	configurations := o.Client.ValidatingWebhookConfigurations()
	now, err := configurations.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	policy, changed := admissionregistrationv1.Ignore, false
	for i := range now.Webhooks {
		w := &now.Webhooks[i]
		changed = changed || w.FailurePolicy == nil || *w.FailurePolicy != policy
		w.FailurePolicy = &policy
	}
	if !changed {
		return nil
	}
	if _, err = configurations.Update(ctx, now, metav1.UpdateOptions{FieldManager: "lateen"}); err == nil {
		o.Metrics.Admission.ConfigUpdates.Inc()
	}
	return err
}
