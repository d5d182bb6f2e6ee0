package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Whatever is written to a real API server, and however often it cannot be reached: a source that
// was there from the beginning has delivered what one that begins now lists, and what is compiled
// of it step by step is what is compiled of the list.
func TestWatchesDeliverTheStateOfAList(t *testing.T) {
	if testing.Short() {
		t.Skip("writes some hundred objects")
	}
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true, NoWatchCache: true})
	api.InstallIstioCRDs(t)
	draws.Checks(t, "2")
	draws.NoShrinking(t) // a failure takes its time to be sure
	written := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		w := newWriter(t, r, api)
		config, gate := gated(api.Config())
		old := follow(t, kube.Options{Config: config, RootNamespace: w.home, Revision: "canary"})
		defer old.stop()
		for range 120 {
			if rapid.IntRange(0, 15).Draw(r, "cut off") == 15 {
				gate.shut()
				for range rapid.IntRange(1, 9).Draw(r, "writes meanwhile") {
					written[w.write(r)]++
				}
				if rapid.Bool().Draw(r, "the history is lost") {
					api.Compact(t)
				}
				gate.open()
			}
			written[w.write(r)]++
		}
		fresh := follow(t, kube.Options{Config: api.Config(), RootNamespace: w.home, Revision: "canary"})
		defer fresh.stop()
		require.EventuallyWithT(r, func(c *assert.CollectT) { // controllers may be writing still
			require.True(c, fresh.sink.isSynced())
			require.Empty(c, cmp.Diff(fresh.state(), old.state()), "- a list, + watches")
		}, 3*time.Minute, 20*time.Millisecond)
	})
	t.Log("written: ", written)
	for _, done := range []string{"created", "patched", "deleted", "refused"} {
		require.NotZero(t, written[done], done)
	}
}

// follower is a source with the stages behind it, up to what proxies get.
type follower struct {
	sink     *sink
	problems *validate.ProblemStore
	stop     func()

	mu     sync.Mutex
	placed map[*compile.Member]compile.Placement
}

func follow(t *testing.T, o kube.Options) *follower {
	f := &follower{sink: newSink(t), problems: validate.NewProblemStore(
		slog.New(slog.DiscardHandler), nil,
	), placed: map[*compile.Member]compile.Placement{}}
	compiler := compile.NewCompiler(
		compile.Refusals{
			Endpoint: func(model.Endpoint, error) {}, Resource: func(string, error) {},
			Patch: func(compile.RefusedPatch) {},
		},
	)
	for i, p := range []scope.Proxy{
		{Namespace: o.RootNamespace, Name: "client", Settings: scope.Settings{Intercepted: true}},
		{Namespace: o.RootNamespace, Name: "proxied", Settings: scope.Settings{HTTPProxyPort: 15080}},
		{Type: scope.Router, Namespace: o.RootNamespace, Name: "gateway", Labels: model.LabelsOf(
			map[string]string{"istio": "ingressgateway"},
		)},
	} {
		p.Address = fmt.Sprintf("127.1.0.%d", i)
		compiler.Join(compile.Facts{
			Proxy: p,
		}, func(m *compile.Member, at compile.Placement) { f.placed[m] = at })
	}
	loop := schedule.NewLoop(schedule.LoopOptions{
		Converter: convert.New(convert.Options{Selected: true}), Mesh: model.DefaultMesh(), Debounce: schedule.Debounce{
			After: 5 * time.Millisecond, Max: time.Second,
		},
		Publish: func(_ *state.Snapshot, d *state.Delta) { compiler.Advance(d, f.advance) },
		Batched: func(schedule.BatchStats) {}, Arrived: func(source.Change) {}, Problems: f.problems,
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	deliver := loop.Sink(ctx)
	stop := f.sink.start(o, func(e source.Event) {
		f.sink.take(e)
		deliver(e)
	})
	f.stop = sync.OnceFunc(func() {
		stop()
		cancel()
		require.NoError(t, <-done)
	})
	return f
}

func (f *follower) advance(s compile.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range s.Moved {
		f.placed[m.Member] = m.Placement
	}
	for _, c := range s.Changed {
		for m, p := range f.placed {
			if p.Class == c.Class {
				p.State = c.State
				f.placed[m] = p
			}
		}
	}
}

// state is all that is known: what each object means, what is wrong, and what each proxy gets.
func (f *follower) state() map[string]string {
	out, convert := map[string]string{}, convert.New(convert.Options{Selected: true})
	f.sink.mu.Lock()
	for k, o := range f.sink.objects {
		result := convert.Convert(source.Change{Key: k, Object: o}, model.DefaultMesh())
		text := fmt.Sprint(result.Problems)
		for _, m := range result.Objects {
			text += fmt.Sprintf(" %x", model.Fingerprint(m))
		}
		out[k.String()] = text
	}
	f.sink.mu.Unlock()
	for _, p := range f.problems.Problems() {
		out["problem "+p.String()] = p.Want
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.placed {
		for typ, set := range p.State.Sets() {
			for r := range set.All() {
				out[fmt.Sprint(p.Overlay.Pod, " ", resource.Type(typ), " ", r.Name())] = fmt.Sprintf("%x", r.Version())
			}
		}
	}
	return out
}

// writer writes at random what users and controllers write.
type writer struct {
	t          *testing.T
	client     dynamic.Interface
	resources  map[string]schema.GroupVersionResource
	kinds      map[string]kinds.Kind // by resource
	home       string
	label      string
	namespaces []string
}

func newWriter(t *testing.T, r *rapid.T, api *kubeapi.Server) *writer {
	config := api.Config()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	w := &writer{
		t: t, client: client, resources: map[string]schema.GroupVersionResource{}, kinds: map[string]kinds.Kind{},
		home: api.Namespace(t, nil),
	}
	w.label = "mesh-" + w.home
	w.namespaces = []string{
		api.Namespace(t, map[string]string{w.label: "in"}), api.Namespace(t, map[string]string{w.label: "in"}), w.home,
	}
	for _, d := range kinds.Watched() {
		w.resources[d.Resource], w.kinds[d.Resource] = d.GroupVersionResource(), d.Kind
	}
	webhooks := admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	w.resources[webhooks.Resource], w.kinds[webhooks.Resource] = webhooks, "MutatingWebhookConfiguration"
	t.Cleanup(func() {
		_ = w.client.Resource(webhooks).Delete(context.Background(), "tag-"+w.home, metav1.DeleteOptions{})
		for _, cluster := range []string{"nodes", "ingressclasses"} {
			for _, name := range written {
				_ = w.client.Resource(w.resources[cluster]).Delete(
					context.Background(), w.name(cluster, name), metav1.DeleteOptions{},
				)
			}
		}
	})
	return w
}

var written = []string{"a", "b", "c"}

// name is that of an object; what stands in no namespace is told apart by it from what other tests
// write.
func (w *writer) name(resource, name string) string {
	switch resource {
	case "nodes", "ingressclasses":
		return name + "-" + w.home
	case "configmaps":
		return "istio"
	}
	return name
}

// write writes something, and returns what came of it.
func (w *writer) write(r *rapid.T) string {
	if rapid.IntRange(0, 7).Draw(r, "a tag") == 7 {
		return w.writeTag(r)
	}
	resource := rapid.SampledFrom(slices.Sorted(maps.Keys(contents))).Draw(r, "resource")
	if resource == "namespaces" {
		value := rapid.SampledFrom([]string{`"in"`, `"in"`, `"out"`, "null"}).Draw(r, "label")
		ns := rapid.SampledFrom(w.namespaces[:2]).Draw(r, "namespace")
		return w.patch(w.client.Resource(w.resources[resource]), ns, fmt.Sprintf(
			`{"metadata":{"labels":{%q:%s}}}`, w.label, value,
		))
	}
	name := w.name(resource, rapid.SampledFrom(written).Draw(r, "name"))
	var in dynamic.ResourceInterface = w.client.Resource(w.resources[resource])
	switch resource {
	case "nodes", "ingressclasses":
	case "configmaps":
		in = w.client.Resource(w.resources[resource]).Namespace(w.home)
	default:
		in = w.client.Resource(w.resources[resource]).Namespace(rapid.SampledFrom(w.namespaces).Draw(r, "namespace"))
	}
	content := strings.NewReplacer("HOME", w.home, "LABEL", w.label).Replace(
		rapid.SampledFrom(contents[resource]).Draw(r, "content"),
	)
	switch rapid.IntRange(0, 9).Draw(r, "what") {
	case 0:
		return w.remove(in, name)
	case 1:
		if w.remove(in, name) == "refused" {
			return "refused"
		}
		return w.put(in, resource, name, content)
	case 2:
		return w.patch(in, name, fmt.Sprintf(
			`{"metadata":{"annotations":{"heartbeat":"%d"}}}`, rapid.IntRange(0, 99).Draw(r, "heartbeat"),
		))
	case 3:
		return w.patch(in, name, rapid.SampledFrom([]string{
			`{"metadata":{"labels":{"istio.io/rev":"stable"}}}`, `{"metadata":{"labels":{"istio.io/rev":"canary"}}}`,
			`{"metadata":{"labels":{"istio.io/rev":null}}}`, `{"metadata":{"labels":{"istio.io/rev":"prod"}}}`,
		}).Draw(r, "revision"))
	}
	return w.put(in, resource, name, content)
}

// writeTag lets the tag "prod" be of a revision, or of none.
func (w *writer) writeTag(r *rapid.T) string {
	in := w.client.Resource(w.resources["services"]).Namespace(w.home)
	resource, name := "services", "tag"
	if rapid.Bool().Draw(r, "by its webhook") {
		resource, name = "mutatingwebhookconfigurations", "tag-"+w.home
		in = w.client.Resource(w.resources[resource])
	}
	if rapid.IntRange(0, 3).Draw(r, "removed") == 3 {
		return w.remove(in, name)
	}
	return w.put(in, resource, name, fmt.Sprintf(
		`{metadata: {labels: {istio.io/tag: prod, istio.io/rev: %s}}, spec: {ports: [{port: 80}]}}`,
		rapid.SampledFrom([]string{"canary", "stable"}).Draw(r, "revision of the tag"),
	))
}

// put creates an object, or gives it other content.
func (w *writer) put(in dynamic.ResourceInterface, resource, name, content string) string {
	o := map[string]any{}
	require.NoError(w.t, yaml.Unmarshal([]byte(content), &o))
	text, err := json.Marshal(o)
	require.NoError(w.t, err)
	if w.patch(in, name, string(text)) == "patched" {
		return "patched"
	}
	created := &unstructured.Unstructured{Object: o}
	created.SetName(name)
	created.SetGroupVersionKind(w.resources[resource].GroupVersion().WithKind(string(w.kinds[resource])))
	_, err = in.Create(w.t.Context(), created, metav1.CreateOptions{})
	return w.outcome("created", err)
}

func (w *writer) patch(in dynamic.ResourceInterface, name, patch string) string {
	_, err := in.Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return w.outcome("patched", err)
}

func (w *writer) remove(in dynamic.ResourceInterface, name string) string {
	now := int64(0)
	return w.outcome("deleted", in.Delete(w.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// outcome returns what was done. What an API server would not take, or does not have, is no mistake
// of a writer who knows neither.
func (w *writer) outcome(done string, err error) string {
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) ||
		apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) {
		return "refused"
	}
	require.NoError(w.t, err)
	return done
}
