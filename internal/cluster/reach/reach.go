package reach

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cluster/install"
)

// Replica is a running Pod of a control plane.
type Replica struct{ Namespace, Pod, Revision string }

// Cluster finds Pods and connects to them, with the rights of its configuration: to list Pods, and
// to create their subresource portforward.
type Cluster struct {
	config *rest.Config
	client *typedcorev1.CoreV1Client
}

// New returns the cluster of a configuration.
func New(config *rest.Config) (*Cluster, error) {
	client, err := typedcorev1.NewForConfig(config)
	return &Cluster{config, client}, err
}

// Replicas returns the running Pods of the control plane in a namespace, by name. An empty revision
// stands for all revisions.
func (c *Cluster) Replicas(ctx context.Context, namespace, revision string) ([]Replica, error) {
	want := labels.Set(install.ReplicaLabels(revision))
	if revision == "" {
		delete(want, kinds.RevisionLabel)
	}
	pods, err := c.client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: want.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the control plane's Pods in namespace %s: %w", namespace, err)
	}
	var found []Replica
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			found = append(found, Replica{pod.Namespace, pod.Name, pod.Labels[kinds.RevisionLabel]})
		}
	}
	slices.SortFunc(found, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Pod, b.Pod))
	})
	return found, nil
}
