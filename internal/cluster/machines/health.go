package machines

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1alpha1 "istio.io/api/meta/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// writeHealth has the status of an entry say what the agent has told of its workload.
func (r *Registry) writeHealth(ctx context.Context, rec record, e *networkingv1.WorkloadEntry) error {
	if rec.health == nil {
		return nil
	}
	if !takesHealth(e) {
		if skipped, ok := r.logLimit.Allow("health", r.o.Now()); ok {
			r.o.Log.Info("the health of a workload has no effect: its WorkloadEntry lacks an annotation",
				"entry", e.Namespace+"/"+e.Name, "annotation", healthAnnotation, "lines_left_out", skipped)
		}
		return nil
	}
	return r.setHealth(ctx, e, rec.health)
}

// setHealth writes the condition Healthy, or removes it. Conditions of others stay.
func (r *Registry) setHealth(ctx context.Context, e *networkingv1.WorkloadEntry, h *Health) error {
	conditions := slices.Clone(e.Status.GetConditions())
	at := slices.IndexFunc(
		conditions,
		func(c *metav1alpha1.IstioCondition) bool { return c.GetType() == healthCondition() },
	)
	switch {
	case h == nil && at < 0:
		return nil
	case h == nil:
		conditions = slices.Delete(conditions, at, at+1)
	case at < 0:
		conditions = append(conditions, conditionOf(*h, nil))
	case conditions[at].GetStatus() == statusOf(*h) && conditions[at].GetMessage() == h.Message:
		return nil
	default:
		conditions[at] = conditionOf(*h, conditions[at])
	}
	_, err := r.patch(ctx, e, map[string]any{
		"metadata": map[string]any{"resourceVersion": e.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	}, "status")
	return err
}

// healthCondition is the condition that the source reads too.
func healthCondition() string { return kinds.Of(kinds.WorkloadEntry).Watch.Condition }

func conditionOf(h Health, before *metav1alpha1.IstioCondition) *metav1alpha1.IstioCondition {
	c := &metav1alpha1.IstioCondition{
		Type: healthCondition(), Status: statusOf(h), Message: h.Message,
		LastProbeTime: timestamppb.New(h.at), LastTransitionTime: timestamppb.New(h.at),
	}
	if before.GetStatus() == c.GetStatus() {
		c.LastTransitionTime = before.GetLastTransitionTime()
	}
	return c
}

func statusOf(h Health) string {
	if h.Healthy {
		return "True"
	}
	return "False"
}
