package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// edited is what becomes of configuration that changes 40 times a second for a minute.
type edited struct {
	waits       []time.Duration // of each generation, from its oldest change to when proxies have it; sorted
	generations int
}

func (e edited) p99() time.Duration { return e.waits[len(e.waits)*99/100] }

// edit lets it change. A generation takes so long to the proxies, and so long of a proxy's main
// thread and of this process.
func edit(t *testing.T, debounce schedule.Debounce, took, proxy, server time.Duration) (e edited) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, debounce, func(o *schedule.LoopOptions) {
			o.Busy = func() time.Duration { return time.Duration(len(r.published())) * server }
		})
		r.took, r.proxy, r.moves = took, proxy, 100*time.Millisecond
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range 40 * 60 {
			c := alias("b", int32(1+i))
			c.ObservedAt = time.Now()
			r.sink(source.Event{Changes: []source.Change{c}})
			advance(often)
		}
		advance(time.Minute)
		for i, d := range r.deltas()[1:] {
			e.generations++
			e.waits = append(e.waits, r.start.Add(r.published()[1+i].at).Sub(d.Observed)+took)
		}
	})
	slices.Sort(e.waits)
	return e
}

// Edits that never rest leave as soon as their pushes allow: in a mesh of 1,000 hosts one takes
// 13 ms of an Envoy, and to 2,000 sidecars 60 ms of both CPUs.
func TestEditsThatNeverRestLeaveAtThePaceOfTheirPushes(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		took, proxy, server time.Duration
		p99                 time.Duration
	}{
		"small mesh":       {5 * ms, ms, 2 * ms, 200 * ms},
		"2,000 sidecars":   {60 * ms, ms, 40 * ms, 250 * ms},
		"1,000 hosts":      {20 * ms, 13 * ms, 10 * ms, 300 * ms},
		"10,000 hosts":     {200 * ms, 130 * ms, 50 * ms, 3 * time.Second},
		"20,000 sidecars":  {800 * ms, 5 * ms, 800 * ms, 5 * time.Second},
		"nobody gets them": {-1, 0, 0, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := edit(t, defaults, c.took, c.proxy, c.server)
			require.LessOrEqual(t, got.p99(), c.p99)
			pushes := time.Duration(got.generations)
			require.LessOrEqual(t, pushes*c.proxy, time.Minute/20+time.Second/2, "a twentieth of an Envoy")
			require.LessOrEqual(t, pushes*c.server, time.Minute/4+2*c.server, "a quarter of this process")
			require.GreaterOrEqual(t, got.generations, 12, "twice as many as with istiod's rule")
		})
	}
}

// Somebody whose edits are wrong all the time, each in another way, delays nobody else: what is
// held for them is so once.
func TestEditsThatAreAlwaysWrongDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, defaults)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		for i := range 40 * 60 {
			r.sink(source.Event{Changes: []source.Change{routeTo(fmt.Sprint("v", i)), endpointAt(i)}})
			advance(often)
		}
		require.Greater(t, len(r.published()), 1500, "of 2,400 changes of endpoints")
	})
}

func TestVariablesThatAreSetAreObeyed(t *testing.T) {
	require.Equal(t, 6, edit(t, istio, 0, 0, 0).generations)
	require.Equal(t, 7, edit(t, early, 0, 0, 0).generations)
}

func meshWith(provider string) source.Change {
	text := "extensionProviders:\n- name: " + provider +
		"\n  envoyExtAuthzHttp: {service: a.default.svc.cluster.local, port: 80}\n"
	return memory.Upsert(kinds.ConfigMap, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istio"}, Data: map[string]string{"mesh": text},
	})
}

func asks(provider string) source.Change {
	return memory.Upsert(kinds.AuthorizationPolicy, &securityv1.AuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ask"},
		Spec: security.AuthorizationPolicy{
			Action: security.AuthorizationPolicy_CUSTOM,
			ActionDetail: &security.AuthorizationPolicy_Provider{
				Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: provider},
			},
			Rules: []*security.Rule{{}},
		},
	})
}

// A policy and the provider that it names never leave as a half, in whichever order they come. One
// without its provider, which refuses, waits for 100 ms.
func TestAPolicyLeavesWithItsProvider(t *testing.T) {
	ask, provide := asks("ext"), meshWith("ext")
	for name, c := range map[string]struct {
		events [][]source.Change
		want   []time.Duration
	}{
		"one event, the policy first":   {[][]source.Change{{ask, provide}}, []time.Duration{0}},
		"one event, the provider first": {[][]source.Change{{provide, ask}}, []time.Duration{0}},
		"the provider follows":          {[][]source.Change{{ask}, {provide}}, []time.Duration{30 * time.Millisecond}},
		"there is none":                 {[][]source.Change{{ask}}, []time.Duration{100 * time.Millisecond}},
		"another is there": {
			[][]source.Change{{ask, meshWith("other")}, {provide}}, []time.Duration{0, 130 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, defaults)
				r.sink(source.Event{Changes: []source.Change{service("a", 80), slice("a-1", "10.0.0.1")}, Synced: true})
				advance(time.Minute)
				for _, changes := range c.events {
					r.sink(source.Event{Changes: changes})
					advance(30 * time.Millisecond)
				}
				advance(time.Minute)
				require.Equal(t, c.want, r.leftAt())
			})
		})
	}
}
