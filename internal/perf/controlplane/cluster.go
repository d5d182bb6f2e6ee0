package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	"k8s.io/client-go/tools/clientcmd"

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

// OpenCluster returns the Cluster of a kubeconfig.
func OpenCluster(kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
	}
	return NewCluster(config)
}

// Begin writes a mesh. Of one that Restore left it changes what differs. It refuses a cluster that
// contains another mesh, and waits for one that is being deleted.
func (c *Cluster) Begin(ctx context.Context, mesh []source.Change) error {
	c.mu.Lock()
	before := c.mesh
	c.mu.Unlock()
	if before == nil {
		if err := c.awaitEmpty(ctx); err != nil {
			return err
		}
	}
	now, changes := map[source.Key]source.Change{}, []source.Change(nil)
	for _, ch := range mesh {
		now[ch.Key] = ch
		if old, there := before[ch.Key]; !there || !reflect.DeepEqual(old.Object, ch.Object) {
			changes = append(changes, ch)
		}
	}
	for key := range before {
		if _, stays := now[key]; !stays {
			changes = append(changes, source.Change{Key: key})
		}
	}
	c.mu.Lock()
	c.mesh, c.changed = now, map[source.Key]bool{}
	c.mu.Unlock()
	return c.writeAll(ctx, changes...)
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
	object["apiVersion"], object["kind"] = r.GroupVersion().String(), ch.Key.Kind.Name()
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
