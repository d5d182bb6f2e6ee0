package registration

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// pods are an API server's Pods of all replicas.
type pods struct {
	typedcorev1.PodInterface
	items []corev1.Pod
	err   error
}

func (p pods) Pods(string) typedcorev1.PodInterface { return p }

func (p pods) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: p.items}, p.err
}

func pod(name string, ready corev1.ConditionStatus, deleted *metav1.Time) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: deleted},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

// configurations are an API server's, with one of policy Fail. It reports so many conflicts first,
// or refuses all writes with an error.
type configurations struct {
	typedv1.AdmissionregistrationV1Interface
	typedv1.ValidatingWebhookConfigurationInterface
	policy    admissionregistrationv1.FailurePolicyType
	conflicts int
	err       error
}

func (c *configurations) ValidatingWebhookConfigurations() typedv1.ValidatingWebhookConfigurationInterface {
	return c
}

func (c *configurations) Get(
	context.Context, string, metav1.GetOptions,
) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	policy := c.policy
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{FailurePolicy: &policy}, {}},
	}, nil
}

func (c *configurations) Update(
	_ context.Context, now *admissionregistrationv1.ValidatingWebhookConfiguration, _ metav1.UpdateOptions,
) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.conflicts > 0 {
		c.conflicts--
		return nil, apierrors.NewConflict(schema.GroupResource{}, "", nil)
	}
	for i := range now.Webhooks {
		c.policy = *now.Webhooks[i].FailurePolicy
	}
	return now, nil
}

func TestYieldSetsIgnoreUnlessAnotherReplicaIsReady(t *testing.T) {
	const fail, ignore = admissionregistrationv1.Fail, admissionregistrationv1.Ignore
	gone := metav1.NewTime(time.Unix(1, 0))
	own := pod("own", corev1.ConditionTrue, nil)
	for _, c := range []struct {
		name      string
		others    pods
		policy    admissionregistrationv1.FailurePolicyType
		conflicts int
		want      admissionregistrationv1.FailurePolicyType
	}{
		{"alone", pods{items: []corev1.Pod{own}}, fail, 0, ignore},
		{"in no cluster", pods{}, fail, 0, ignore},
		{"another is ready", pods{items: []corev1.Pod{own, pod("b", corev1.ConditionTrue, nil)}}, fail, 0, fail},
		{"another is not ready", pods{items: []corev1.Pod{pod("b", corev1.ConditionFalse, nil)}}, fail, 0, ignore},
		{"another stops too", pods{items: []corev1.Pod{pod("b", corev1.ConditionTrue, &gone)}}, fail, 0, ignore},
		{"the others are not known", pods{err: errors.New("forbidden")}, fail, 0, ignore},
		{"somebody else writes", pods{}, fail, 2, ignore},
		{"the leader sets no policy Fail", pods{}, ignore, 0, fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := &configurations{policy: fail, conflicts: c.conflicts}
			metrics := yield(t, api, c.policy, c.others)
			require.Equal(t, c.want, api.policy)
			require.Equal(t, c.want != fail, counted(t, metrics.Admission.ConfigUpdates) == 1)
		})
	}
}

// yield has a replica named own yield, and returns what it has counted.
func yield(
	t *testing.T, api *configurations, policy admissionregistrationv1.FailurePolicyType, others pods,
) *observe.Metrics {
	t.Helper()
	metrics := observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	Yield(t.Context(), Options{
		Client: api, Policy: policy, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	}, Replicas{Pods: others, Own: "own"})
	return metrics
}

func TestConfigurationsThatCannotBeWrittenAreCounted(t *testing.T) {
	api := &configurations{policy: admissionregistrationv1.Fail}
	api.err = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	metrics := yield(t, api, admissionregistrationv1.Fail, pods{})
	require.InDelta(t, 1, counted(t, metrics.Admission.ConfigUpdateErrors.WithLabelValues("forbidden")), 0)
	require.Zero(t, counted(t, metrics.Admission.ConfigUpdates))
}

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue()
}
