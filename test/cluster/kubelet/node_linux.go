package kubelet

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	heartbeat      = time.Second
	leaseNamespace = "kube-node-lease"
	leaseSeconds   = 10
)

// node is a name, and whether it is still there.
type node struct {
	name string
	lost context.Context // done when the node is lost, or the kubelet ends
	lose context.CancelFunc
}

func (k *Kubelet) register(ctx context.Context, name string) error {
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: podnet.Gateway.String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: k.o.Port}},
			Conditions: []corev1.NodeCondition{{
				Type:              corev1.NodeReady,
				Status:            corev1.ConditionTrue,
				Reason:            "KubeletReady",
				LastHeartbeatTime: metav1.Now(),
			}},
		},
	}
	if _, err := k.o.Client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	n := &node{name: name}
	n.lost, n.lose = context.WithCancel(ctx)
	k.mu.Lock()
	k.nodes[name] = n
	k.mu.Unlock()
	k.running.Go(func() { k.beat(n) })
	return nil
}

// beat renews the node's lease as long as it is there; when that fails, it tries again at the next
// beat.
func (k *Kubelet) beat(n *node) {
	leases := k.o.Client.CoordinationV1().Leases(leaseNamespace)
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		seconds, now := int32(leaseSeconds), metav1.NewMicroTime(time.Now())
		lease, err := leases.Get(n.lost, n.name, metav1.GetOptions{})
		if err == nil {
			lease.Spec.RenewTime = &now
			_, _ = leases.Update(n.lost, lease, metav1.UpdateOptions{})
		} else {
			_, _ = leases.Create(n.lost, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: n.name},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity:       &n.name,
					LeaseDurationSeconds: &seconds,
					RenewTime:            &now,
				},
			}, metav1.CreateOptions{})
		}
		select {
		case <-n.lost.Done():
			return
		case <-t.C:
		}
	}
}

// LoseNode lets a node vanish: its Pods are killed and off the network, its heartbeat stops, and
// nobody is told.
func (k *Kubelet) LoseNode(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[name].lose()
}
