package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
)

// endTimeout is how long the cluster's controller may take to delete a mesh.
const endTimeout = 5 * time.Minute

// awaitEmpty waits until no namespace of a mesh is being deleted. One that stays is of another
// mesh.
func (c *Cluster) awaitEmpty(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout, fmt.Errorf(
		"the cluster's controller has not deleted the namespaces of the mesh before within %v", endTimeout,
	))
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		found, err := c.listOwn(ctx, kinds.Namespace)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		for i := range found {
			if found[i].GetDeletionTimestamp() == nil {
				return fmt.Errorf(
					"namespace %s is there: is this cluster measured by somebody else? If a run was cut short, delete "+
						"what has the label %s=%s", found[i].GetName(), managedBy, load.Manager,
				)
			}
		}
		if len(found) == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listOwn returns the written objects of a cluster-scoped kind.
func (c *Cluster) listOwn(ctx context.Context, k kinds.Kind) ([]unstructured.Unstructured, error) {
	r := kinds.Of(k).GroupVersionResource()
	list, err := c.client.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: managedBy + "=" + load.Manager})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// End deletes what was written.
func (c *Cluster) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c.mu.Lock()
	c.mesh, c.nodes = nil, map[string]bool{}
	c.mu.Unlock()
	root := source.Change{Key: source.Key{Kind: kinds.Sidecar, Namespace: load.Root, Name: "default"}}
	all := []error{c.endSidecar(ctx, root)}
	for _, k := range []kinds.Kind{kinds.Namespace, kinds.Node} {
		found, err := c.listOwn(ctx, k)
		all = append(all, err)
		var names []string
		for i := range found {
			names = append(names, found[i].GetName())
		}
		if k == kinds.Namespace {
			all = append(all, c.endPods(ctx, names))
		}
		var changes []source.Change
		for _, name := range names {
			changes = append(changes, source.Change{Key: source.Key{Kind: k, Name: name}})
		}
		all = append(all, c.each(ctx, changes, func(kinds.Kind) bool { return true }))
	}
	return errors.Join(all...)
}

// endPods deletes all Pods of namespaces without a grace period, since no kubelet ends them.
func (c *Cluster) endPods(ctx context.Context, namespaces []string) error {
	r := kinds.Of(kinds.Pod).GroupVersionResource()
	at := int64(0)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxRequests)
	for _, namespace := range namespaces {
		g.Go(func() error {
			return c.client.Resource(r).Namespace(namespace).DeleteCollection(
				ctx, metav1.DeleteOptions{GracePeriodSeconds: &at}, metav1.ListOptions{},
			)
		})
	}
	return g.Wait()
}

// endSidecar deletes the Sidecar for isolation if this Cluster wrote it.
func (c *Cluster) endSidecar(ctx context.Context, ch source.Change) error {
	r := kinds.Of(kinds.Sidecar).GroupVersionResource()
	found, err := c.client.Resource(r).Namespace(ch.Key.Namespace).Get(ctx, ch.Key.Name, metav1.GetOptions{})
	if err != nil {
		return ignoreMissing(err)
	}
	if found.GetLabels()[managedBy] != load.Manager {
		return nil
	}
	return c.write(ctx, ch)
}
