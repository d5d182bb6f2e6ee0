package schedule_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// moving is early, and keeps endpoints that are on their way from slice to slice.
var moving = schedule.Debounce{
	After:     100 * time.Millisecond,
	Early:     20 * time.Millisecond,
	Max:       10 * time.Second,
	Endpoints: true,
	Moves:     2 * time.Second,
}

// selecting is the Service "a" of the pods of an app, which may be edited.
func selecting(app string, edits ...func(*corev1.Service)) source.Change {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return memory.Upsert(kinds.Service, s)
}

// runs is a Pod of app a at the address of its name, which may be edited.
func runs(name string, edits ...func(*corev1.Pod)) source.Change {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "a"}},
		Status:     corev1.PodStatus{PodIP: addressOf(name)},
	}
	for _, edit := range edits {
		edit(p)
	}
	return memory.Upsert(kinds.Pod, p)
}

func addressOf(pod string) string { return "127.0.0." + pod[1:] }

func ends(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1700000000, 0)} }

// lists is a slice of service a with pods: p7 is one that is ready, p7- one that is not, p7/ one
// that serves and terminates, 127.0.0.7 the address without a Pod.
func lists(name string, pods ...string) source.Change { return listsAt(8080, name, pods...) }

func listsAt(port int32, name string, pods ...string) source.Change {
	portName, node, zone, yes, no := "http", "n1", "z1", true, false
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "a"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	}
	for _, p := range pods {
		e := discoveryv1.Endpoint{Addresses: []string{p}}
		if p[0] == 'p' {
			e = discoveryv1.Endpoint{
				Addresses: []string{addressOf(p[:2])}, NodeName: &node, Zone: &zone, TargetRef: &corev1.ObjectReference{
					Kind: "Pod", Namespace: "default", Name: p[:2],
				},
				Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			}
			switch p[2:] {
			case "-":
				e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &no, Terminating: &no}
			case "/":
				e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
			}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return memory.Upsert(kinds.EndpointSlice, s)
}

func removed(c source.Change) source.Change { return source.Change{Key: c.Key} }

// offers reports whether callers of service a can come to an endpoint.
func offers(snap *state.Snapshot, id state.EndpointID) bool {
	for s := range snap.Claims("a.default.svc.cluster.local") {
		_, there := snap.Endpoints(s).Get(id)
		return there
	}
	return false
}

const p7 = state.EndpointID("127.0.0.7:8080/http")

// begin is a mesh that has been calm for a minute.
func begin(t *testing.T, d schedule.Debounce, start ...source.Change) *rig {
	r := newRig(t, d)
	r.sink(source.Event{Changes: start, Synced: true})
	advance(time.Minute)
	require.True(t, offers(r.deltas()[0].To, p7))
	return r
}

// Whichever of the writes comes first, and however far they are apart, nobody is told of a move.
func TestAMoveBetweenSlicesIsNoChange(t *testing.T) {
	for name, move := range map[string]struct{ start, writes []source.Change }{
		"to a slice with others": {
			[]source.Change{lists("a", "p7"), lists("b", "p8")}, []source.Change{lists("a"), lists("b", "p7", "p8")},
		},
		"to a new slice":           {[]source.Change{lists("a", "p7")}, []source.Change{lists("a"), lists("b", "p7")}},
		"to one with a lower name": {[]source.Change{lists("b", "p7")}, []source.Change{lists("b"), lists("a", "p7")}},
		"with a renamed slice": {
			[]source.Change{lists("a", "p7")}, []source.Change{removed(lists("a")), lists("b", "p7")},
		},
		"in exchange": {[]source.Change{
			lists("a", "p7"), lists("b", "p8"),
		}, []source.Change{lists("a", "p8"), lists("b", "p7")}},
		"by way of a third": {
			[]source.Change{lists("b", "p7")},
			[]source.Change{lists("c", "p7"), removed(lists("b")), lists("a", "p7"), removed(lists("c"))},
		},
	} {
		for _, order := range permutations(len(move.writes)) {
			for cuts := range 1 << (len(move.writes) - 1) {
				t.Run(fmt.Sprint(name, order, cuts), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := begin(
							t,
							moving,
							append([]source.Change{selecting("a"), runs("p7"), runs("p8")}, move.start...)...)
						for i, which := range order {
							r.sink(source.Event{Changes: []source.Change{move.writes[which]}})
							if cuts>>i&1 == 1 {
								advance(500 * time.Millisecond)
							}
						}
						advance(time.Minute)
						require.Len(t, r.published(), 1)
					})
				})
			}
		}
	}
}

type said struct {
	after   time.Duration
	changes []source.Change
}

func at(after time.Duration, changes ...source.Change) said { return said{after, changes} }

// What a slice has lost goes as soon as anything says that it has gone, and after a while if
// nothing does.
func TestWhatIsLostGoes(t *testing.T) {
	const later, kept = 50 * time.Millisecond, 2 * time.Second
	headless := func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }
	unselecting := func(s *corev1.Service) { s.Spec.Selector = nil }
	relabelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} }
	draining := func(p *corev1.Pod) { p.Labels["istio.io/draining"] = "true" }
	elsewhere := func(p *corev1.Pod) { p.Status.PodIP = "127.0.0.9" }
	usual := []source.Change{selecting("a"), runs("p7"), runs("p8"), lists("a", "p7", "p8")}
	lost := lists("a", "p8")
	for name, c := range map[string]struct {
		start []source.Change
		then  []said
		gone  time.Duration // after so long
	}{
		"nothing says why": {usual, []said{at(0, lost)}, kept},
		"with its slice":   {usual, []said{at(0, removed(lost))}, kept},
		"of a headless service": {
			[]source.Change{selecting("a", headless), usual[1], usual[3], usual[2]}, []said{at(0, lost)}, kept,
		},
		"of a service without selector": {
			[]source.Change{selecting("a", unselecting), usual[1], usual[3], usual[2]}, []said{at(0, lost)}, 0,
		},
		"of a service of others": {
			[]source.Change{selecting("b"), usual[1], usual[3], usual[2]}, []said{at(0, lost)}, 0,
		},
		"draining": {append(usual, runs("p7", draining)), []said{at(0, lost)}, 0},
		"without a Pod": {
			[]source.Change{selecting("a"), lists("a", "127.0.0.7")}, []said{at(0, lists("a"))}, 0,
		},
		"in another slice, not ready": {append(usual, lists("b", "p7-")), []said{at(0, lost)}, 0},
		"in another one, terminating": {append(usual, lists("b", "p7/")), []said{at(0, lost)}, 0},
		"not ready":                   {usual, []said{at(0, lists("a", "p7-", "p8"))}, 0},
		"terminating":                 {usual, []said{at(0, lists("a", "p7/", "p8"))}, 0},
		"not ready later":             {usual, []said{at(0, lost), at(later, lists("b", "p7-"))}, later},
		"not ready any more, then lost": {
			append(usual, lists("b", "p7-")), []said{at(0, lists("b")), at(later, lost)}, later + kept,
		},
		"not ready for another service": {append(usual, ofService("c", lists("c", "p7-"))), []said{at(0, lost)}, kept},
		"with the Pod":                  {usual, []said{at(0, lost, removed(runs("p7")))}, 0},
		"before the Pod":                {usual, []said{at(0, lost), at(later, removed(runs("p7")))}, later},
		"after the Pod":                 {usual, []said{at(0, removed(runs("p7"))), at(later, lost)}, 0},
		"with a Pod that ends":          {usual, []said{at(0, lost, runs("p7", ends))}, 0},
		"before a Pod ends":             {usual, []said{at(0, lost), at(later, runs("p7", ends))}, later},
		"after a Pod ends":              {usual, []said{at(0, runs("p7", ends)), at(later, lost)}, later},
		"a Pod that failed":             {usual, []said{at(0, lost), at(later, runs("p7", failed))}, later},
		"a Pod with another address":    {usual, []said{at(0, lost), at(later, runs("p7", elsewhere))}, later},
		"a Pod with other labels":       {usual, []said{at(0, lost), at(later, runs("p7", relabelled))}, later},
		"with a selector":               {usual, []said{at(0, selecting("b"), lost)}, 0},
		"before a selector changes":     {usual, []said{at(0, lost), at(later, selecting("b"))}, later},
		"after a selector changed":      {usual, []said{at(0, selecting("b")), at(later, lost)}, later},
		"while a selector waits":        {usual, []said{at(0, alias("z", 80)), at(later, selecting("b"), lost)}, later},
		"before the Service": {
			usual, []said{at(0, lost), at(later, removed(selecting("a")))}, later + 20*time.Millisecond,
		},
		"while its Service waits": {usual, []said{at(0, removed(selecting("a")), lost)}, 0},
		"with its namespace": {
			usual, []said{at(0, removed(lost), removed(runs("p7")), removed(runs("p8")), removed(selecting("a")))}, 0,
		},
		"its port alone":               {usual, []said{at(0, listsAt(8081, "a", "p7", "p8"))}, 0},
		"to a slice with another port": {usual, []said{at(0, lost), at(later, listsAt(8081, "b", "p7"))}, later},
		"to one that another service has": {
			usual, []said{at(0, lost), at(later, ofService("c", lists("b", "p7")))}, kept,
		},
		"lost again": {usual, []said{at(0, lost), at(later, usual[3]), at(later, lost)}, 2*later + kept},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, moving, c.start...)
				for _, s := range c.then {
					advance(s.after)
					r.sink(source.Event{Changes: s.changes})
				}
				advance(time.Minute)
				first := slices.IndexFunc(r.deltas(), func(d *state.Delta) bool { return !offers(d.To, p7) })
				require.Positive(t, first)
				require.Equal(
					t, c.gone, (r.published()[first].at - time.Minute).Truncate(2*time.Millisecond),
					"but for the pace of several changes",
				)
				for _, d := range r.deltas()[first:] {
					require.False(t, offers(d.To, p7), "it does not come back")
				}
			})
		})
	}
}

func failed(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

func ofService(name string, c source.Change) source.Change {
	c.Object.SetLabels(map[string]string{discoveryv1.LabelServiceName: name})
	return c
}

// What is lost one after the other goes one after the other.
func TestEachEndpointIsKeptForItself(t *testing.T) {
	for range 8 { // maps have an order of their own each time
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, moving, selecting("a"), runs("p7"), runs("p8"), lists("a", "p7", "p8"))
			r.sink(source.Event{Changes: []source.Change{lists("a", "p8")}})
			advance(500 * time.Millisecond)
			r.sink(source.Event{Changes: []source.Change{lists("a")}})
			advance(time.Minute)
			require.Len(t, r.published(), 3)
			require.Equal(t, time.Minute+2*time.Second, r.published()[1].at)
			require.Equal(t, time.Minute+2500*time.Millisecond, r.published()[2].at)
		})
	}
}

// What a slice says of an address counts before what one has said.
func TestAnAddressThatWasLostMayBeAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, moving, selecting("a"), runs("p7"), runs("p8"), lists("a", "p7"))
		r.sink(source.Event{Changes: []source.Change{lists("a")}})
		advance(500 * time.Millisecond)
		another := lists("b", "p8")
		another.Object.(*discoveryv1.EndpointSlice).Endpoints[0].Addresses = []string{"127.0.0.7"}
		r.sink(source.Event{Changes: []source.Change{another}})
		advance(time.Minute)
		require.Equal(t, time.Minute+500*time.Millisecond, r.published()[1].at)
		require.Equal(t, map[state.EndpointID]string{p7: "p8"}, pods(r.deltas()[1].To))
	})
}

// A Pod that is deleted is said to end first; then its slices say so; in the end both are without
// it. Nothing of that is kept.
func TestAScaleDownIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, moving, selecting("a"), runs("p7"), runs("p8"), lists("a", "p7", "p8"))
		for _, e := range [][]source.Change{
			{runs("p7", ends)}, {runs("p8", ends)}, {lists("a", "p7/", "p8")}, {lists("a", "p7/", "p8/")},
			{removed(runs("p7"))}, {lists("a", "p8/")}, {removed(runs("p8"))}, {lists("a")},
		} {
			r.sink(source.Event{Changes: e})
			advance(500 * time.Millisecond)
		}
		var told []time.Duration
		for i, d := range r.deltas() {
			if len(d.Endpoints) > 0 {
				told = append(told, r.published()[i].at)
			}
		}
		require.Equal(t, []time.Duration{0, time.Minute + time.Second, time.Minute + 1500*time.Millisecond}, told)
		_, err := r.loop.Flush(context.Background())
		require.NoError(t, err)
		require.Equal(t, time.Minute+4*time.Second, time.Since(r.start), "nothing is waited for")
	})
}

func TestFlushWaitsForWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, moving, selecting("a"), runs("p7"), lists("a", "p7"))
		r.sink(source.Event{Changes: []source.Change{lists("a")}})
		generation, err := r.loop.Flush(context.Background())
		require.NoError(t, err)
		require.Len(t, r.published(), 2)
		require.Equal(t, r.published()[1].generation, generation)
		require.Equal(t, time.Minute+2*time.Second, r.published()[1].at)
	})
}

func TestWhatIsLostNeedNotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, early, selecting("a"), runs("p7"), lists("a", "p7"))
		r.sink(source.Event{Changes: []source.Change{lists("a")}})
		advance(time.Minute)
		require.Equal(t, time.Minute, r.published()[1].at)
	})
}

// Where endpoints wait with all others, the slice that has what was lost may be among those that
// wait.
func TestWhatIsLostIsKeptForWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		debounce := istio
		debounce.Moves = 2 * time.Second
		r := begin(t, debounce, selecting("a"), runs("p7"), lists("a", "p7"))
		r.sink(source.Event{Changes: []source.Change{lists("a")}})
		advance(1900 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{lists("b", "p7")}})
		for i := range 50 {
			advance(50 * time.Millisecond)
			r.sink(source.Event{Changes: []source.Change{service("b", int32(80+i))}})
		}
		advance(time.Minute)
		for _, d := range r.deltas() {
			require.True(t, offers(d.To, p7))
		}
	})
}

// permutations are all orders of so many.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}
