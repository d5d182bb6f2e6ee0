package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
)

// TestWhatIsOfferedIsWhatIsListedOrKept has Pods, slices and a Service change at random, and
// compares what callers are offered with what a simple reading of the rules says: what slices list,
// and what they have lost as long as nothing says why.
func TestWhatIsOfferedIsWhatIsListedOrKept(t *testing.T) {
	draws.AtLeast(t, 100)
	someKept := false
	rapid.Check(t, func(rt *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawSaid), 1, 30).Draw(rt, "events")
		want, kept := expected(events)
		got, untold := offered(t, events)
		if !slices.EqualFunc(want, got, maps.Equal) {
			rt.Fatalf("want %v\ngot  %v", want, got)
		}
		require.Empty(rt, untold)
		someKept = someKept || kept > 0
	})
	require.True(t, someKept)
}

const keptFor = 2*time.Second + time.Millisecond // never a sum of what passes between events

// drawSaid is a change or two of few objects, so that they have to do with each other.
func drawSaid(t *rapid.T) said {
	s := said{after: rapid.SampledFrom(
		[]time.Duration{0, 0, 100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second},
	).Draw(t, "after")}
	for range rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "at once") {
		c := drawObject(t)
		if rapid.IntRange(0, 5).Draw(t, "gone") == 0 {
			c = removed(c)
		}
		s.changes = append(s.changes, c)
	}
	return s
}

func drawObject(t *rapid.T) source.Change {
	pods := []string{"p6", "p7", "p8"}
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		return selecting(rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "app"), func(s *corev1.Service) {
			if rapid.IntRange(0, 4).Draw(t, "without selector") == 0 {
				s.Spec.Selector = nil
			}
		})
	case 1, 2:
		return runs(rapid.SampledFrom(pods).Draw(t, "pod"), func(p *corev1.Pod) {
			for _, edit := range []func(*corev1.Pod){
				ends, failed, func(p *corev1.Pod) { p.Labels["app"] = "b" },
				func(p *corev1.Pod) { p.Status.PodIP = "127.0.0.9" },
			} {
				if rapid.IntRange(0, 8).Draw(t, "edited") == 0 {
					edit(p)
				}
			}
		})
	}
	var hosts []string
	for _, p := range pods {
		if state := rapid.SampledFrom([]string{"none", "none", "", "", "-", "/"}).Draw(t, "state"); state != "none" {
			hosts = append(hosts, p+state)
		}
	}
	c := listsAt(rapid.SampledFrom(
		[]int32{8080, 8080, 8080, 8081},
	).Draw(t, "port"), rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "slice"), hosts...)
	return ofService(rapid.SampledFrom([]string{"a", "a", "a", "a", "c"}).Draw(t, "service"), c)
}

// offered is what a loop publishes: after each event, which Pod serves which endpoint.
func offered(t *testing.T, events []said) (all []map[state.EndpointID]string, untold []state.EndpointID) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, schedule.Debounce{Moves: keptFor})
		r.sink(source.Event{Changes: []source.Change{selecting("a"), runs("p6"), runs("p7"), runs("p8")}, Synced: true})
		for _, e := range append(events, at(time.Minute)) {
			advance(e.after)
			r.sink(source.Event{Changes: e.changes})
			synctest.Wait()
			deltas := r.deltas()
			all = append(all, pods(deltas[len(deltas)-1].To))
		}
		untold = whatNobodyWasTold(r.deltas())
	})
	return all, untold
}

// whatNobodyWasTold are endpoints that are others than before, and that the delta does not name.
func whatNobodyWasTold(deltas []*state.Delta) (untold []state.EndpointID) {
	before := map[state.EndpointID]string{}
	for _, d := range deltas {
		told := map[state.EndpointID]bool{}
		for _, c := range d.Endpoints {
			for _, id := range c.IDs {
				told[id] = told[id] || c.Host == serviceA.Host
			}
		}
		now := pods(d.To)
		for _, id := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now))) {
			if before[id] != now[id] && !told[id] {
				untold = append(untold, id)
			}
		}
		before = now
	}
	return untold
}

// serviceA is what endpoints of service a are known by, be there such a Service or not.
var serviceA = &model.Service{Meta: model.Meta{Namespace: "default"}, Host: "a.default.svc.cluster.local"}

func pods(snap *state.Snapshot) map[state.EndpointID]string {
	serve := map[state.EndpointID]string{}
	for id, e := range snap.Endpoints(serviceA).All() {
		serve[id] = e.Workload[len("default/"):]
	}
	return serve
}

// rules are what the objects of a mesh say, and what is kept that they do not say.
type rules struct {
	objects map[source.Key]source.Change
	kept    map[state.EndpointID]keeping
}

type keeping struct {
	pod, address string
	until        time.Duration
}

func expected(events []said) (all []map[state.EndpointID]string, kept int) {
	m := rules{objects: map[source.Key]source.Change{}, kept: map[state.EndpointID]keeping{}}
	m.take([]source.Change{selecting("a"), runs("p6"), runs("p7"), runs("p8")})
	now, before := time.Duration(0), map[state.EndpointID]keeping{}
	for _, e := range append(events, at(time.Minute)) {
		now += e.after
		maps.DeleteFunc(m.kept, func(id state.EndpointID, k keeping) bool { return k.until <= now })
		maps.DeleteFunc(before, func(id state.EndpointID, k keeping) bool { return k.until > 0 && k.until <= now })
		m.take(e.changes)
		listed := m.listed()
		for id, k := range before {
			_, is := listed[id]
			if on, was := m.kept[id]; is || was && m.pod(on.pod) != nil {
				continue
			}
			k.until = now + keptFor
			m.kept[id] = k
		}
		maps.DeleteFunc(m.kept, func(_ state.EndpointID, k keeping) bool { return !m.stays(k) })
		kept += len(m.kept)
		before = maps.Clone(m.kept)
		maps.Copy(before, listed)
		serve := map[state.EndpointID]string{}
		for id, k := range before {
			serve[id] = k.pod
		}
		all = append(all, serve)
	}
	return all, kept
}

func (m rules) take(changes []source.Change) {
	for _, c := range changes {
		m.objects[c.Key] = c
	}
}

func (m rules) pod(name string) *corev1.Pod {
	p, _ := m.objects[runs(name).Key].Object.(*corev1.Pod)
	if p == nil || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	return p
}

// app is what the Service selects; empty if there is none, or it selects nothing.
func (m rules) app() string {
	if s, there := m.objects[selecting("a").Key].Object.(*corev1.Service); there {
		return s.Spec.Selector["app"]
	}
	return ""
}

// each gives what slices of the Service list, those that come first last.
func (m rules) each(f func(port int32, e discoveryv1.Endpoint)) {
	for _, name := range []string{"s3", "s2", "s1"} {
		s, _ := m.objects[lists(name).Key].Object.(*discoveryv1.EndpointSlice)
		if s == nil || s.Labels[discoveryv1.LabelServiceName] != "a" {
			continue
		}
		for _, e := range s.Endpoints {
			f(*s.Ports[0].Port, e)
		}
	}
}

func (m rules) listed() map[state.EndpointID]keeping {
	all := map[state.EndpointID]keeping{}
	m.each(func(port int32, e discoveryv1.Endpoint) {
		if *e.Conditions.Ready && m.pod(e.TargetRef.Name) != nil {
			id := state.EndpointID(fmt.Sprintf("%s:%d/http", e.Addresses[0], port))
			all[id] = keeping{pod: e.TargetRef.Name, address: e.Addresses[0]}
		}
	})
	return all
}

func (m rules) stays(k keeping) bool {
	stands := true
	m.each(func(_ int32, e discoveryv1.Endpoint) { stands = stands && e.Addresses[0] != k.address })
	p := m.pod(k.pod)
	return stands && p != nil && p.Status.PodIP == k.address && p.DeletionTimestamp == nil && p.Labels["app"] == m.app()
}
