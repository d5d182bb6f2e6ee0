package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
)

// managedBy is the label of everything that End deletes. Its value is load.Manager, which owns the
// written fields.
const managedBy = "app.kubernetes.io/managed-by"

// Cluster writes a mesh to an API server: Namespaces, Nodes and Pods that nobody runs, Services,
// Istio's objects. The cluster's controller makes the EndpointSlices of the pods.
type Cluster struct {
	client dynamic.Interface

	mu    sync.Mutex      // guards what follows: a storm and the measured changes are written concurrently
	nodes map[string]bool // that were written
	// mesh is what Begin wrote, or nil. changed are the keys written since then.
	mesh    map[source.Key]source.Change
	changed map[source.Key]bool
}

// maxRequests is how many requests are made at a time.
const maxRequests = 16

// NewCluster returns a Cluster without client-side rate limit.
func NewCluster(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	return &Cluster{client: client, nodes: map[string]bool{}}, err
}

// Begin writes a mesh. It refuses a cluster that contains another mesh, and keeps one that Restore
// left.
func (c *Cluster) Begin(ctx context.Context, mesh []source.Change) error {
	c.mu.Lock()
	begun := c.mesh != nil
	c.mu.Unlock()
	if begun {
		return nil
	}
	found, err := c.ownNames(ctx, kinds.Namespace)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf(
			"namespace %s is there: is this cluster measured by somebody else? If a run was cut short, delete "+
				"what has the label %s=%s",
			found[0],
			managedBy,
			load.Manager,
		)
	}
	c.mu.Lock()
	c.mesh, c.changed = map[source.Key]source.Change{}, map[source.Key]bool{}
	for _, ch := range mesh {
		c.mesh[ch.Key] = ch
	}
	c.mu.Unlock()
	return c.writeAll(ctx, mesh...)
}

// Restore returns the mesh to its state after Begin.
func (c *Cluster) Restore(ctx context.Context) error {
	var changes []source.Change
	c.mu.Lock()
	for key := range c.changed {
		ch, was := c.mesh[key]
		if !was {
			ch = source.Change{Key: key}
		}
		changes = append(changes, ch)
	}
	clear(c.changed)
	c.mu.Unlock()
	return c.writeAll(ctx, changes...)
}

// ownNames returns the names of written objects of a cluster-scoped kind.
func (c *Cluster) ownNames(ctx context.Context, k kinds.Kind) (names []string, err error) {
	r := kinds.Of(k).GroupVersionResource()
	list, err := c.client.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: managedBy + "=" + load.Manager})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names, nil
}

// stageOf returns in which stage a kind is written: after the kinds it needs. The order within a
// stage does not matter.
func stageOf(k kinds.Kind) int {
	switch k {
	case kinds.Namespace:
		return 0
	case kinds.Node, kinds.Service:
		return 1
	}
	return 2
}

// stages is how many stages there are.
const stages = 3

// Apply modifies what Begin has written.
func (c *Cluster) Apply(ctx context.Context, changes ...source.Change) error {
	c.mu.Lock()
	for _, ch := range changes {
		c.changed[ch.Key] = true
	}
	c.mu.Unlock()
	return c.writeAll(ctx, changes...)
}

// writeAll writes changes stage by stage, many at a time.
func (c *Cluster) writeAll(ctx context.Context, changes ...source.Change) error {
	changes = append(c.newNodes(changes), changes...)
	for stage := range stages {
		if err := c.each(ctx, changes, func(k kinds.Kind) bool { return stageOf(k) == stage }); err != nil {
			return err
		}
	}
	return nil
}

// newNodes returns the nodes of pods that have not been written yet.
func (c *Cluster) newNodes(changes []source.Change) (nodes []source.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range changes {
		pod, ok := ch.Object.(*corev1.Pod)
		if !ok || c.nodes[pod.Spec.NodeName] {
			continue
		}
		c.nodes[pod.Spec.NodeName] = true
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
		node.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Measured"},
		}
		nodes = append(nodes, source.Change{Key: source.Key{Kind: kinds.Node, Name: node.Name}, Object: node})
	}
	return nodes
}

func (c *Cluster) each(ctx context.Context, changes []source.Change, which func(kinds.Kind) bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxRequests)
	for _, ch := range changes {
		if which(ch.Key.Kind) {
			g.Go(func() error {
				if err := c.write(ctx, ch); err != nil {
					return fmt.Errorf("%s: %w", ch.Key, err)
				}
				return nil
			})
		}
	}
	return g.Wait()
}

func (c *Cluster) write(ctx context.Context, ch source.Change) error {
	r := kinds.Of(ch.Key.Kind).GroupVersionResource()
	to := c.client.Resource(r).Namespace(ch.Key.Namespace)
	if ch.Object == nil {
		at := int64(0)
		return retry(ctx, func() error {
			return ignoreMissing(to.Delete(ctx, ch.Key.Name, metav1.DeleteOptions{GracePeriodSeconds: &at}))
		})
	}
	body, status, err := manifest(ch, r)
	if err != nil || body == nil {
		return err
	}
	force := true
	o := metav1.PatchOptions{FieldManager: load.Manager, Force: &force}
	apply := func() error {
		_, err := to.Patch(ctx, ch.Key.Name, types.ApplyPatchType, body, o)
		return err
	}
	if err := retry(ctx, apply); err != nil || !status {
		return err
	}
	return retry(ctx, func() error {
		_, err := to.Patch(ctx, ch.Key.Name, types.ApplyPatchType, body, o, "status")
		return err
	})
}

// retry repeats a write that failed because a namespace has no service account yet or the
// connection was cut. Writes are idempotent.
func retry(ctx context.Context, write func() error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range 100 {
		err := write()
		if err == nil || !isTransient(err) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return write()
}

// isTransient reports whether a write may succeed later.
func isTransient(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount") ||
		errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err)
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// manifest returns the JSON of an object for the API server, or nil for an object that the cluster
// makes itself. status is true if the object has a status to write.
func manifest(ch source.Change, r schema.GroupVersionResource) (body []byte, status bool, err error) {
	if ch.Object.GetLabels()[discoveryv1.LabelManagedBy] == load.Controller {
		return nil, false, nil
	}
	encoded, err := json.Marshal(ch.Object)
	if err != nil {
		return nil, false, err
	}
	var object map[string]any
	if err := json.Unmarshal(encoded, &object); err != nil {
		return nil, false, err
	}
	object["apiVersion"], object["kind"] = r.GroupVersion().String(), string(ch.Key.Kind)
	spec, _ := object["spec"].(map[string]any)
	delete(spec, "clusterIP") // the cluster assigns its own
	meta, _ := object["metadata"].(map[string]any)
	delete(meta, "creationTimestamp")
	if ch.Key.Kind == kinds.Sidecar || ch.Key.Namespace == "" && strings.HasPrefix(ch.Key.Name, load.Prefix) {
		meta["labels"] = map[string]any{managedBy: load.Manager}
	}
	status = ch.Key.Kind == kinds.Pod || ch.Key.Kind == kinds.Node
	if !status {
		delete(object, "status")
	}
	body, err = json.Marshal(object)
	return body, status, err
}

// AwaitEndpoints waits until the cluster's controller has made so many endpoints.
func (c *Cluster) AwaitEndpoints(ctx context.Context, want int) error {
	r := kinds.Of(kinds.EndpointSlice).GroupVersionResource()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for last, since := -1, time.Now(); ; {
		list, err := c.client.Resource(r).List(
			ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + load.Controller},
		)
		if err != nil {
			return err
		}
		have := 0
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].GetNamespace(), load.Prefix) {
				endpoints, _ := list.Items[i].Object["endpoints"].([]any)
				have += len(endpoints)
			}
		}
		switch {
		case have >= want:
			return nil
		case have != last:
			last, since = have, time.Now()
		case time.Since(since) > time.Minute:
			return fmt.Errorf(
				"the cluster's controller has made %d of %d endpoints, and no more for a minute", have, want,
			)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// End deletes what was written.
func (c *Cluster) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c.mu.Lock()
	c.mesh = nil
	c.mu.Unlock()
	root := source.Change{Key: source.Key{Kind: kinds.Sidecar, Namespace: load.Root, Name: "default"}}
	all := []error{c.endSidecar(ctx, root)}
	for _, k := range []kinds.Kind{kinds.Namespace, kinds.Node} {
		names, err := c.ownNames(ctx, k)
		all = append(all, err)
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
