package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/gateways"
	"github.com/lateen-mesh/lateen/internal/cluster/status"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The routes of the public gateway-api-bench.
const (
	attachedSpaces = 50
	attachedEach   = 100
	attachedRoutes = attachedSpaces * attachedEach
)

// attachedAPI is an API server that has objects of the Gateway API, and counts what is asked of it.
// It is asked without a network, so that the clock of a test stands while it answers.
type attachedAPI struct {
	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	reads   int
	writes  map[string]int // of statuses, by path
}

// RoundTrip implements http.RoundTripper.
func (f *attachedAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	code, answer := f.answer(r)
	body, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

func (f *attachedAPI) answer(r *http.Request) (code int, answer any) {
	at, ofStatus := strings.CutSuffix(r.URL.Path, "/status")
	o, found := f.objects[at]
	switch {
	case !strings.Contains(at, "/namespaces/"):
		return http.StatusOK, map[string]any{"items": f.list(path.Base(at))}
	case !found:
		return http.StatusNotFound, metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		}
	case r.Method == http.MethodPatch && ofStatus:
		var patch struct{ Status map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			return http.StatusBadRequest, nil
		}
		f.writes[at]++
		f.version++
		o["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(f.version)
		o["status"] = patch.Status // Lateen alone writes it
	default:
		f.reads++
	}
	return http.StatusOK, o
}

func (f *attachedAPI) list(resource string) []any {
	items := []any{}
	for at, o := range f.objects {
		if path.Base(path.Dir(at)) == resource {
			items = append(items, o)
		}
	}
	return items
}

// put stores an object without a status, or its next generation.
func (f *attachedAPI) put(c source.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.objects[pathOf(c.Key)]
	if o == nil {
		o = map[string]any{"kind": c.Key.Kind.Name()}
		f.objects[pathOf(c.Key)] = o
	}
	f.version++
	o["metadata"] = map[string]any{
		"namespace": c.Key.Namespace, "name": c.Key.Name, "generation": c.Object.GetGeneration(),
		"resourceVersion": fmt.Sprint(f.version),
	}
}

// drop removes an object.
func (f *attachedAPI) drop(k source.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, pathOf(k))
}

// written returns how often which statuses have been written since the last call.
func (f *attachedAPI) written() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.writes
	f.writes, f.reads = map[string]int{}, 0
	return w
}

// attached returns how many routes the one listener of the Gateway counts in its status.
func (f *attachedAPI) attached() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, _ := f.objects[pathOf(edge().Key)]["status"].(map[string]any)
	listeners, _ := of["listeners"].([]any)
	if len(listeners) != 1 {
		return nil
	}
	return listeners[0].(map[string]any)["attachedRoutes"]
}

func pathOf(k source.Key) string {
	r := kinds.Of(k.Kind).GroupVersionResource()
	return path.Join("/apis", r.Group, r.Version, "namespaces", k.Namespace, r.Resource, k.Name)
}

// attachedWorld is a control plane that leads, before an attachedAPI.
type attachedWorld struct {
	api       *attachedAPI
	writer    *state.Writer
	converter *convert.Converter
	cluster   *Cluster
	resign    func()
}

func leadAttached(t *testing.T, api *attachedAPI, initial ...source.Change) *attachedWorld {
	w := &attachedWorld{
		api: api, writer: state.NewWriter(), converter: convert.New(convert.Options{}),
		cluster: &Cluster{
			attachments: status.NewAttachments(), deployments: gateways.NewDeployments(), tracker: status.NewTracker(),
		},
	}
	client, err := status.NewAttachmentAPI(&rest.Config{Host: "http://api.test", Transport: api})
	require.NoError(t, err)
	w.apply(initial...)
	writer := status.NewAttachmentWriter(status.AttachmentOptions{
		Attachments: w.cluster.attachments, API: client, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		writer.Run(ctx)
	}()
	w.resign = func() { cancel(); <-done }
	return w
}

// apply takes one batch of changes as the pipeline does.
func (w *attachedWorld) apply(changes ...source.Change) {
	var updates []state.Update
	for _, c := range changes {
		updates = append(updates, state.Update{
			Key: c.Key, Objects: w.converter.Convert(c, model.DefaultMesh()).Objects,
		})
		if c.Object != nil && c.Key.Kind != kinds.Service {
			w.api.put(c)
		}
	}
	_, d := w.writer.Apply(updates)
	w.cluster.updateAttachments(&generation{delta: d})
	w.cluster.applied(changes)
}

// settle lets so much time pass that all statuses are written at the pace of their requests.
func settle() {
	<-time.After(10 * time.Minute)
	synctest.Wait()
}

func attachedObject(kind kinds.Kind, o metav1.Object) source.Change {
	return source.Change{Key: source.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o}
}

func edge() source.Change {
	all := gatewayv1.NamespacesFromAll
	return attachedObject(kinds.KubernetesGateway, &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "edge", Generation: 1},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "istio", Listeners: []gatewayv1.Listener{{
			Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
		}}},
	})
}

func attachedSpace(i int) string { return fmt.Sprintf("app-%02d", i%attachedSpaces) }

// attachedServices are the Services that the routes lead to.
func attachedServices() (all []source.Change) {
	for i := range attachedSpaces {
		all = append(all, attachedObject(kinds.Service, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: attachedSpace(i), Name: "app"},
			Spec: corev1.ServiceSpec{
				ClusterIP: "10.0.0.1",
				Ports:     []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "http-1", Port: 81}},
			},
		}))
	}
	return all
}

// attachedRoute is route number i, which leads to a port of the Service of its namespace.
func attachedRoute(i int, port gatewayv1.PortNumber, generation int64) source.Change {
	space := gatewayv1.Namespace("edge")
	return attachedObject(kinds.HTTPRoute, &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: attachedSpace(i), Name: fmt.Sprint("route-", i), Generation: generation,
		},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{
				ParentRefs: []gatewayv1.ParentReference{{Name: "edge", Namespace: &space}},
			},
			Hostnames: []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("host-%d.test", i))},
			Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{
				BackendRef: gatewayv1.BackendRef{
					BackendObjectReference: gatewayv1.BackendObjectReference{Name: "app", Port: &port},
				},
			}}}},
		},
	})
}

func allAttachedRoutes() (all []source.Change) {
	for i := range attachedRoutes {
		all = append(all, attachedRoute(i, 80, 1))
	}
	return all
}

// Of 5,000 routes of one Gateway each status is written once, and the Gateway's once. A changed
// route costs its own write, one that comes or goes the Gateway's too. A restart costs none.
func TestStatusesOf5000AttachedRoutesAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &attachedAPI{objects: map[string]map[string]any{}, writes: map[string]int{}}
		initial := slices.Concat(attachedServices(), []source.Change{edge()}, allAttachedRoutes())
		w := leadAttached(t, api, initial...)
		settle()
		written := api.written()
		require.Len(t, written, attachedRoutes+1)
		require.Equal(t, 1, slices.Max(slices.Collect(maps.Values(written))))
		require.InDelta(t, attachedRoutes, api.attached(), 0)

		changed, added, gateway := attachedRoute(7, 81, 2), attachedRoute(attachedRoutes, 80, 1), pathOf(edge().Key)
		w.apply(changed)
		settle()
		require.Equal(t, map[string]int{pathOf(changed.Key): 1}, api.written())

		w.apply(added)
		settle()
		require.Equal(t, map[string]int{pathOf(added.Key): 1, gateway: 1}, api.written())
		require.InDelta(t, attachedRoutes+1, api.attached(), 0)

		w.apply(source.Change{Key: added.Key})
		settle()
		require.Equal(t, map[string]int{gateway: 1}, api.written())
		require.InDelta(t, attachedRoutes, api.attached(), 0)
		w.resign()
		api.drop(added.Key)

		restarted := leadAttached(t, api, append(initial, changed)...)
		settle()
		require.Zero(t, api.reads, "the lists say that all is right")
		require.Empty(t, api.written())
		restarted.resign()
	})
}

// While 5,000 routes attach one by one, and while they are detached, the Gateway's status is
// written once in half a second at most, and at last says how many they are.
func TestAGatewayIsNotWrittenForEachRoute(t *testing.T) {
	const pause, interval = 20 * time.Millisecond, 500 * time.Millisecond
	const atMost = int(attachedRoutes*pause/interval) + 2 // the first one, and one after the last route
	synctest.Test(t, func(t *testing.T) {
		api := &attachedAPI{objects: map[string]map[string]any{}, writes: map[string]int{}}
		w := leadAttached(t, api, append(attachedServices(), edge())...)
		for _, c := range allAttachedRoutes() {
			w.apply(c)
			<-time.After(pause)
		}
		settle()
		written := api.written()
		require.LessOrEqual(t, written[pathOf(edge().Key)], atMost)
		delete(written, pathOf(edge().Key))
		require.Len(t, written, attachedRoutes)
		require.Equal(t, 1, slices.Max(slices.Collect(maps.Values(written))))
		require.InDelta(t, attachedRoutes, api.attached(), 0)

		for _, c := range allAttachedRoutes() {
			w.apply(source.Change{Key: c.Key})
			<-time.After(pause)
		}
		settle()
		written = api.written()
		require.LessOrEqual(t, written[pathOf(edge().Key)], atMost)
		delete(written, pathOf(edge().Key))
		require.Empty(t, written, "of routes that are gone")
		require.InDelta(t, 0, api.attached(), 0)
		w.resign()
	})
}

// The Gateway's status does not wait for those of its routes: two seconds after 5,000 of them have
// come at once, it counts them all.
func TestAGatewayDoesNotWaitForItsRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &attachedAPI{objects: map[string]map[string]any{}, writes: map[string]int{}}
		w := leadAttached(t, api, append(attachedServices(), edge())...)
		settle()
		api.written()
		w.apply(allAttachedRoutes()...)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.InDelta(t, attachedRoutes, api.attached(), 0)
		require.Less(t, len(api.written()), attachedRoutes/10, "the routes wait for their turn")
		w.resign()
	})
}
