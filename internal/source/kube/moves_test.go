package kube_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// A slice that is deleted is made again, under another name, by the controller of Kubernetes:
// nobody is told of its endpoint. That of a Pod that is deleted goes, long before what slices have
// lost would.
func TestRecreatedSliceKeepsItsEndpoints(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{})
	client, namespace := clientOf(t, api.Config()), api.Namespace(t, nil)
	_, err := client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	api.Node(t, "node-moves", nil)
	api.RunPod(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-moves", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, "10.1.2.3")

	var mu sync.Mutex
	var told []int // how many endpoints there are, whenever that changes
	listed := map[source.Key]bool{}
	host := model.Resolve("web", namespace, "cluster.local")
	log := slog.New(slog.DiscardHandler)
	loop := schedule.NewLoop(schedule.LoopOptions{
		Converter: convert.New(
			convert.Options{Selected: true},
		), Mesh: model.DefaultMesh(), Debounce: schedule.Debounce{Moves: time.Hour},
		Publish: func(_ *state.Snapshot, d *state.Delta) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range d.Endpoints {
				if c.Host == host {
					n := 0
					for range c.To.All() {
						n++
					}
					told = append(told, n)
				}
			}
		},
		Batched: func(schedule.BatchStats) {}, Problems: validate.NewProblemStore(log, nil), Logger: log,
		Arrived: func(c source.Change) {
			mu.Lock()
			defer mu.Unlock()
			if c.Key.Kind == kinds.EndpointSlice && c.Key.Namespace == namespace {
				listed[c.Key] = c.Object != nil
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	stop := newSink(t).start(kube.Options{Config: api.Config(), RootNamespace: namespace}, loop.Sink(ctx))
	defer func() {
		stop()
		cancel()
		require.NoError(t, <-done)
	}()
	now := func() []int {
		mu.Lock()
		defer mu.Unlock()
		return append([]int(nil), told...)
	}
	eventually(t, func() bool { n := now(); return len(n) > 0 && n[len(n)-1] == 1 })
	before := len(now())

	slices := client.DiscoveryV1().EndpointSlices(namespace)
	require.NoError(t, slices.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	eventually(t, func() bool { // one went, and another one came
		mu.Lock()
		defer mu.Unlock()
		there := 0
		for _, is := range listed {
			if is {
				there++
			}
		}
		return len(listed) == 2 && there == 1
	})
	generation, err := loop.Flush(t.Context())
	require.NoError(t, err)
	require.NotZero(t, generation)
	require.Len(t, now(), before)

	require.NoError(t, client.CoreV1().Pods(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, func() bool { return len(now()) == before+1 && now()[before] == 0 })
}
