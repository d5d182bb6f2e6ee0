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

// managedBy is the label of all that is deleted at the end: of load.Manager, who owns the fields that are written.
const managedBy = "app.kubernetes.io/managed-by"

// Cluster writes a mesh to an API server: Namespaces, Nodes and Pods that nobody runs, Services, Istio's objects. EndpointSlices of the
// pods are left to the cluster's controller.
type Cluster struct {
	client dynamic.Interface

	mu    sync.Mutex      // guards what follows: a storm is written beside the changes that are measured
	nodes map[string]bool // that were written
	// mesh is what was written at first; nil if nothing was. changed are those keys that were written again since then.
	mesh    map[source.Key]source.Change
	changed map[source.Key]bool
}

// parallel is how many requests are made at a time.
const parallel = 16

// NewCluster returns who writes to an API server, at the pace that this bears.
func NewCluster(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	return &Cluster{client: client, nodes: map[string]bool{}}, err
}

// Begin writes a mesh. It refuses a cluster in which there is one of somebody else; the one that Restore left stays as it is.
func (c *Cluster) Begin(ctx context.Context, mesh []source.Change) error {
	c.mu.Lock()
	begun := c.mesh != nil
	c.mu.Unlock()
	if begun {
		return nil
	}
	found, err := c.mine(ctx, kinds.Namespace)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("namespace %s is there: is this cluster measured by somebody else? If a run was cut short, delete what has the label %s=%s",
			found[0], managedBy, load.Manager)
	}
	c.mu.Lock()
	c.mesh, c.changed = map[source.Key]source.Change{}, map[source.Key]bool{}
	for _, ch := range mesh {
		c.mesh[ch.Key] = ch
	}
	c.mu.Unlock()
	return c.put(ctx, mesh...)
}

// Restore makes the mesh what it was when it began.
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
	return c.put(ctx, changes...)
}

// mine are the names of what was written of a kind without namespaces.
func (c *Cluster) mine(ctx context.Context, k kinds.Kind) (names []string, err error) {
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

// stageOf is when a kind is written: behind those that it needs. Within a stage the order does not matter.
func stageOf(k kinds.Kind) int {
	switch k {
	case kinds.Namespace:
		return 0
	case kinds.Node, kinds.Service:
		return 1
	}
	return 2
}

// stages is how many there are.
const stages = 3

// Apply changes what Begin has written.
func (c *Cluster) Apply(ctx context.Context, changes ...source.Change) error {
	c.mu.Lock()
	for _, ch := range changes {
		c.changed[ch.Key] = true
	}
	c.mu.Unlock()
	return c.put(ctx, changes...)
}

// put writes changes, many at a time.
func (c *Cluster) put(ctx context.Context, changes ...source.Change) error {
	changes = append(c.nodesOf(changes), changes...)
	for stage := range stages {
		if err := c.each(ctx, changes, func(k kinds.Kind) bool { return stageOf(k) == stage }); err != nil {
			return err
		}
	}
	return nil
}

// nodesOf are the nodes of pods that are not there yet.
func (c *Cluster) nodesOf(changes []source.Change) (nodes []source.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range changes {
		pod, ok := ch.Object.(*corev1.Pod)
		if !ok || c.nodes[pod.Spec.NodeName] {
			continue
		}
		c.nodes[pod.Spec.NodeName] = true
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Measured"}}
		nodes = append(nodes, source.Change{Key: source.Key{Kind: kinds.Node, Name: node.Name}, Object: node})
	}
	return nodes
}

func (c *Cluster) each(ctx context.Context, changes []source.Change, which func(kinds.Kind) bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
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

// retry repeats a write that a new namespace refuses until its service account is there, or whose connection was cut: none does harm if it
// is made twice.
func retry(ctx context.Context, write func() error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range 100 {
		err := write()
		if err == nil || !passes(err) {
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

// passes tells whether a write may succeed later.
func passes(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount") ||
		errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err)
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// manifest is an object as the API server takes it; nil for what the cluster makes itself. status tells that it has one to write.
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
	delete(spec, "clusterIP") // the cluster has addresses of its own
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
		list, err := c.client.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + load.Controller})
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
			return fmt.Errorf("the cluster's controller has made %d of %d endpoints, and no more for a minute", have, want)
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
		names, err := c.mine(ctx, k)
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

// endPods deletes all Pods of namespaces at once: nobody is there who would end them gracefully.
func (c *Cluster) endPods(ctx context.Context, namespaces []string) error {
	r := kinds.Of(kinds.Pod).GroupVersionResource()
	at := int64(0)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, namespace := range namespaces {
		g.Go(func() error {
			return c.client.Resource(r).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &at}, metav1.ListOptions{})
		})
	}
	return g.Wait()
}

// endSidecar deletes the Sidecar of isolation if it is the one that was written.
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
