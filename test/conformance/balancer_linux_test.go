package conformance

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
)

// balancer gives Services of type LoadBalancer the addresses of their ready Pods. That balances
// well enough for Services whose ports are those of the Pods, as the ones of Gateways are.
type balancer struct {
	client   kubernetes.Interface
	services listers.ServiceLister
	pods     listers.PodLister
	log      *slog.Logger
}

// newBalancer makes a balancer on a factory that is not started yet.
func newBalancer(client kubernetes.Interface, f informers.SharedInformerFactory, log *slog.Logger) *balancer {
	return &balancer{
		client: client, services: f.Core().V1().Services().Lister(), pods: f.Core().V1().Pods().Lister(), log: log,
	}
}

const balancerInterval = 100 * time.Millisecond

func (b *balancer) run(ctx context.Context) {
	t := time.NewTicker(balancerInterval)
	defer t.Stop()
	for {
		all, err := b.services.List(labels.Everything())
		if err != nil {
			b.log.Error("Services cannot be listed", "error", err)
		}
		for _, s := range all {
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Spec.Selector) > 0 {
				b.assign(ctx, s)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// assign writes the addresses of a Service where they have changed.
func (b *balancer) assign(ctx context.Context, s *corev1.Service) {
	pods, err := b.pods.Pods(s.Namespace).List(labels.SelectorFromSet(s.Spec.Selector))
	if err != nil {
		return
	}
	var addresses []corev1.LoadBalancerIngress
	for _, p := range pods {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready && p.DeletionTimestamp == nil {
			addresses = append(addresses, corev1.LoadBalancerIngress{IP: p.Status.PodIP})
		}
	}
	slices.SortFunc(addresses, func(a, c corev1.LoadBalancerIngress) int {
		if a.IP < c.IP {
			return -1
		}
		return 1
	})
	same := slices.EqualFunc(addresses, s.Status.LoadBalancer.Ingress, func(a, c corev1.LoadBalancerIngress) bool {
		return a.IP == c.IP
	})
	if same {
		return
	}
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = addresses
	// What fails is tried again with the next look.
	_, _ = b.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
}
