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
	"github.com/lateen-mesh/lateen/internal/install"
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
	pods, err := c.running(ctx, namespace, want.String())
	if err != nil {
		return nil, fmt.Errorf("listing the control plane's Pods in namespace %s: %w", namespace, err)
	}
	var found []Replica
	for _, pod := range pods {
		found = append(found, Replica{pod.Namespace, pod.Name, pod.Labels[kinds.RevisionLabel]})
	}
	slices.SortFunc(found, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Pod, b.Pod))
	})
	return found, nil
}

// Running returns the names of the running Pods in a namespace that a label selector ("app=kiali")
// selects, sorted.
func (c *Cluster) Running(ctx context.Context, namespace, selector string) ([]string, error) {
	pods, err := c.running(ctx, namespace, selector)
	if err != nil {
		return nil, fmt.Errorf("listing Pods with %s in namespace %s: %w", selector, namespace, err)
	}
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names, nil
}

// running returns the Pods that run and are not about to end.
func (c *Cluster) running(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	pods, err := c.client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	}), nil
}
