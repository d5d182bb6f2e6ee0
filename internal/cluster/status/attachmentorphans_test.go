package status

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// routeAPI is an API server with HTTPRoutes and what they may be attached to, all in the namespace
// a.
type routeAPI struct {
	mu      sync.Mutex
	routes  map[string]*liveAttachment
	parents map[string]string // specs, by "resource/name"
	patched []string
	listed  func() // is called when the routes are listed; nil for nothing
}

// mayNotBeRead stands for the spec of an object that the API server does not show.
const mayNotBeRead = ""

func (f *routeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch dir, name := path.Split(r.URL.Path); {
	case r.Method == http.MethodPatch:
		name = path.Base(path.Dir(r.URL.Path))
		body, _ := io.ReadAll(r.Body)
		var patch liveAttachment
		_ = json.Unmarshal(body, &patch)
		f.routes[name].Status.Parents = patch.Status.Parents
		f.patched = append(f.patched, name)
		answer(f.routes[name])
	case name == "httproutes":
		if f.listed != nil {
			f.listed()
		}
		items := []*liveAttachment{}
		for _, route := range f.routes {
			items = append(items, route)
		}
		answer(map[string]any{"items": items})
	case path.Base(dir) == "httproutes" && f.routes[name] != nil:
		answer(f.routes[name])
	case f.parents[path.Base(dir)+"/"+name] != "":
		answer(map[string]any{"spec": json.RawMessage(f.parents[path.Base(dir)+"/"+name])})
	case f.has(path.Base(dir) + "/" + name):
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case strings.Contains(dir, "/namespaces/") || path.Base(dir) == "gatewayclasses":
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	default:
		answer(map[string]any{"items": []any{}})
	}
}

func (f *routeAPI) has(parent string) bool {
	_, has := f.parents[parent]
	return has
}

// put puts a route with an entry of each controller for a parent, which is "Kind/name".
func (f *routeAPI) put(name, parent string, controllers ...string) {
	l := &liveAttachment{Kind: "HTTPRoute"}
	l.Metadata.Namespace, l.Metadata.Name = "a", name
	to := conditionMaker{generation: 1}
	kind, parent, _ := strings.Cut(parent, "/")
	ref := model.ParentRef{Group: kinds.GatewayAPIGroup, Kind: kind, Name: parent}
	accepted := model.Condition{Status: true, Reason: "Accepted"}
	entry := to.parents(nil, []model.ParentStatus{{Ref: ref, Accepted: accepted}})
	for _, c := range controllers {
		one := entry[0]
		one.ControllerName = gatewayv1.GatewayController(c)
		l.Status.Parents = append(l.Status.Parents, one)
	}
	f.routes[name] = l
}

// controllersOf are the controllers with an entry in the status of a route.
func (f *routeAPI) controllersOf(name string) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.routes[name].Status.Parents {
		all = append(all, string(p.ControllerName))
	}
	return all
}

// writer is a new leader's.
func (f *routeAPI) writer(t *testing.T, a *Attachments) *AttachmentWriter {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api, err := NewAttachmentAPI(&rest.Config{Host: server.URL, Transport: transport})
	require.NoError(t, err)
	return NewAttachmentWriter(AttachmentOptions{
		Attachments: a, API: api, Metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}),
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
}

// A route that ceases to be Lateen's after a new leader has read its status, and before it has
// written one, loses Lateen's entries.
func TestARouteLeavesWhileALeaderBegins(t *testing.T) {
	key := source.Key{Kind: kinds.HTTPRoute, Namespace: "a", Name: "leaves"}
	fake := &routeAPI{routes: map[string]*liveAttachment{}, parents: map[string]string{}}
	fake.put("leaves", "Gateway/gone", "other", model.GatewayController)
	a := NewAttachments()
	status := &model.GatewayAPIStatus{Meta: model.Meta{Kind: kinds.HTTPRoute}}
	a.Compiled([]AttachmentChange{{Key: key, Status: status}})
	a.Applied([]source.Change{{Key: key, Object: &metav1.ObjectMeta{Generation: 1}}})
	w := fake.writer(t, a)
	w.statusQueue = newStatusQueue(t.Context(), newParentsFirst(), w.Metrics, w.Log)
	require.True(t, w.readExisting(t.Context()))
	a.Compiled([]AttachmentChange{{Key: key}})
	a.Applied(nil)
	w.handle(t.Context(), key)
	require.Equal(t, []string{"other"}, fake.controllersOf("leaves"))
}

func (a *Attachments) isHeard() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.listener != nil
}

// A route that has ceased to be Lateen's while nobody led loses Lateen's entries with the next
// leader. Those of other controllers stay, and so do all for a Gateway of another revision or of
// another of Istio's controllers, for what may not be read, and for parents of other kinds.
func TestANewLeaderRemovesWhatRemainsOfLateen(t *testing.T) {
	const own = model.GatewayController
	fake := &routeAPI{routes: map[string]*liveAttachment{}, parents: map[string]string{
		"gateways/theirs":          `{"gatewayClassName": "istio"}`,
		"gateways/unmanaged":       `{"gatewayClassName": "unmanaged"}`,
		"gateways/changed":         `{"gatewayClassName": "example"}`,
		"gateways/hidden":          mayNotBeRead,
		"listenersets/theirs":      `{"parentRef": {"name": "theirs"}}`,
		"listenersets/changed":     `{"parentRef": {"name": "changed", "namespace": "a"}}`,
		"gatewayclasses/unmanaged": `{"controllerName": "istio.io/unmanaged-gateway"}`,
		"gatewayclasses/example":   `{"controllerName": "example.com/gateway"}`,
	}}
	known := []source.Key{
		{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "unmanaged"},
		{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "changed"}, // it has another class
		{Kind: kinds.ListenerSet, Namespace: "a", Name: "theirs"},
		{Kind: kinds.ListenerSet, Namespace: "a", Name: "changed"},
	}
	stay := []string{"theirs", "of-theirs", "unmanaged", "hidden", "called"}
	fake.put("gone", "Gateway/gone", "other", own)
	fake.put("changed", "Gateway/changed", own)
	fake.put("of-changed", "ListenerSet/changed", own)
	fake.put("theirs", "Gateway/theirs", own)
	fake.put("of-theirs", "ListenerSet/theirs", own)
	fake.put("unmanaged", "Gateway/unmanaged", own)
	fake.put("hidden", "Gateway/hidden", own)
	fake.put("called", "ServiceEntry/called", own)
	fake.put("never", "Gateway/gone", "other")
	called := fake.routes["called"]
	fake.put("called", "Gateway/gone", own)
	called.Status.Parents = append(called.Status.Parents, fake.routes["called"].Status.Parents...)
	fake.routes["called"] = called
	a := NewAttachments()
	for name := range fake.routes {
		known = append(known, source.Key{Kind: kinds.HTTPRoute, Namespace: "a", Name: name})
	}
	var changes []source.Change
	for _, k := range known {
		changes = append(changes, source.Change{Key: k, Object: &metav1.ObjectMeta{Generation: 1}})
	}
	a.Applied(changes)
	heard := false
	fake.listed = func() { heard = heard || a.isHeard() }
	w := fake.writer(t, a)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	require.Eventually(t, func() bool {
		return len(fake.controllersOf("gone")) == 1 && len(fake.controllersOf("changed")) == 0 &&
			len(fake.controllersOf("of-changed")) == 0
	}, time.Minute, time.Millisecond)
	cancel()
	<-done
	require.True(t, heard, "what changes while statuses are read is heard")
	require.Equal(t, []string{"other"}, fake.controllersOf("gone"))
	for _, name := range stay {
		require.Contains(t, fake.controllersOf(name), own, name)
	}
	require.Equal(t, []string{"other"}, fake.controllersOf("never"))
	require.ElementsMatch(t, []string{"gone", "changed", "of-changed"}, fake.patched)
}
