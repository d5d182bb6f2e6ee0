package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

var begin = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)

// generationOf is one of a second, of one object and two classes, in which a virtual host changed.
func generationOf(n int) *entry {
	host := fmt.Sprintf("80/service-%d.shop:80", n%1000)
	timeout := page.FieldChange{Path: "spec.http[0].timeout", Before: `"1s"`, After: fmt.Sprintf(`"%ds"`, n)}
	return &entry{
		Generation: page.Generation{
			Generation: uint64(n), At: begin.Add(time.Duration(n) * time.Second),
			Causes: []page.Cause{{
				Kind: "VirtualService", Namespace: fmt.Sprintf("ns%d", n%50), Name: fmt.Sprintf("service-%d", n%1000),
				Verb: page.Changes, Manager: "kubectl", Written: begin,
				Fields: []page.FieldChange{timeout},
			}},
			Groups:   []page.Group{{Classes: []uint64{uint64(n%40 + 1), uint64(n%40 + 41)}}},
			Delivery: &page.Delivery{Proxies: 50, Bytes: 40_000, Half: 0.012, Most: 0.020, All: 0.031},
		},
		Of: [][]uint32{{0}}, LastClass: 100,
		Undo: []undo{{
			Type: resource.VirtualHost, Name: host,
			Before: bytesOf(versionFor(n - 1000)), After: bytesOf(versionFor(n)), Kept: true,
			Body: []byte(host + strings.Repeat("route of the service; ", 20) + fmt.Sprint(n)),
		}},
		Objects: []replaced{{
			Before: packed{Meta: []byte(`{"labels":null}`), Spec: []byte(strings.Repeat("spec", 40))},
		}},
	}
}

func versionFor(n int) resource.Version { return resource.New("", []byte(fmt.Sprint(n))).Version() }

// TestADayTakesLittleMemory: of a change a second so little is remembered in two hours that a day
// fits into the default of 32 MiB, and each question has the answer that all generations give.
func TestADayTakesLittleMemory(t *testing.T) {
	const hours = 2
	const all = hours * 60 * 60
	s := NewStore(32 << 20)
	for n := range all {
		s.add(generationOf(n))
	}
	require.Less(t, s.Size()*24/hours, s.budget)
	for name, q := range map[string]Query{
		"the newest": {Limit: 3},
		"of an object": {
			Object: source.Key{Kind: kinds.VirtualService, Namespace: "ns7", Name: "service-7"}, Limit: 5,
		},
		"of any kind":     {Object: source.Key{Namespace: "ns7", Name: "service-7"}, Limit: 5},
		"of a namespace":  {Object: source.Key{Namespace: "ns7"}, Limit: 100},
		"of a proxy":      {Proxy: "web.shop", Class: 3, Limit: 5},
		"of a resource":   {Resource: "80/service-9.shop:80", Limit: 2},
		"without a table": {Resource: "service-9.shop:80", Limit: 2},
		"of a time":       {Since: begin.Add(time.Hour), Until: begin.Add(time.Hour + 10*time.Second), Limit: 100},
		"the first":       {Until: begin.Add(3 * time.Second), Limit: 100},
		"of none":         {Object: source.Key{Namespace: "ns7", Name: "nobody"}, Limit: 5},
		"of no such kind": {Object: source.Key{Kind: kinds.Service, Namespace: "ns7", Name: "service-7"}, Limit: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var want []page.Generation
			for n := all - 1; n >= 0 && len(want) < q.Limit; n-- {
				e := generationOf(n)
				group := -1
				if q.Class != 0 {
					if group = 0; !slices.Contains(e.Groups[0].Classes, uint64(q.Class)) {
						continue
					}
				}
				if e.At.Before(q.Since) || !q.Until.IsZero() && e.At.After(q.Until) || !q.wants(e, group) {
					continue
				}
				want = append(want, e.shown(group))
			}
			got, since := s.Select(q)
			require.Equal(t, want, got)
			require.Equal(t, begin, since)
		})
	}
}

// TestTheOldestGo: there is room for so many generations, and it is said since when.
func TestTheOldestGo(t *testing.T) {
	const all, room = 5000, 100_000
	s := NewStore(room)
	for n := range all {
		s.add(generationOf(n))
		require.LessOrEqual(t, s.Size(), room)
	}
	got, since := s.Select(Query{Limit: all})
	require.Less(t, len(got), all)
	require.Greater(t, len(got), 100)
	require.Equal(t, got[len(got)-1].At, since)
	require.Equal(t, generationOf(all-1).shown(-1), got[0])
}

// TestNothingIsRememberedOfNothing: a history of no bytes keeps nothing at all.
func TestNothingIsRememberedOfNothing(t *testing.T) {
	s := NewStore(0)
	r := NewRecorder(Options{Store: s, Dropped: func() { t.Error("a report was dropped") }})
	for range inbox + 1 {
		r.Arrived(virtualService("a"))
		r.Publish(Published{Generation: 1, At: begin, Changed: []source.Key{virtualService("a").Key}})
		r.Settle(Settled{Generation: 1})
	}
	require.Empty(t, r.arrived)
	_, since := s.Select(Query{Limit: 1})
	require.True(t, since.IsZero())
	_, _, err := s.At(Proxy{}, begin)
	require.ErrorContains(t, err, "LATEEN_HISTORY_BYTES")
}

// recorded runs a Recorder while f reports to it, and returns what is then remembered.
func recorded(t *testing.T, f func(*Recorder)) (all []page.Generation) {
	synctest.Test(t, func(t *testing.T) {
		store := NewStore(1 << 20)
		r := NewRecorder(Options{Store: store, Dropped: func() { t.Error("a report was dropped") }})
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		f(r)
		synctest.Wait()
		all, _ = store.Select(Query{Limit: 100})
		cancel()
	})
	return all
}

func virtualService(timeout string, by ...metav1.ManagedFieldsEntry) source.Change {
	o := &networkingv1.VirtualService{Spec: networking.VirtualService{
		Hosts: []string{"web"}, Http: []*networking.HTTPRoute{{Name: timeout}},
	}}
	o.Name, o.Namespace, o.ManagedFields = "web", "shop", by
	return source.Change{
		Key: source.Key{Kind: kinds.VirtualService, Namespace: "shop", Name: "web"}, Object: o, ObservedAt: time.Now(),
	}
}

// TestAGenerationTellsItsCauses: objects with the fields that differ and who wrote them; those of
// another generation, and of what changes all the time, are not told.
func TestAGenerationTellsItsCauses(t *testing.T) {
	at := metav1.NewTime(begin)
	secret := source.Change{
		Key: source.Key{Kind: kinds.Secret, Namespace: "shop", Name: "tls"}, ObservedAt: time.Now(),
		Object: &corev1.Secret{Data: map[string][]byte{"key": []byte("private")}},
	}
	web := virtualService("a").Key
	all := recorded(t, func(r *Recorder) {
		publish := func(n uint64, keys ...source.Key) {
			r.Publish(Published{Generation: n, At: begin, Changed: keys})
		}
		publish(0) // all that is there at the start
		r.Arrived(virtualService("a"))
		publish(1, web)
		r.Arrived(virtualService("b", metav1.ManagedFieldsEntry{Manager: "kubectl", Time: &at}))
		publish(2, web)
		publish(3, web) // of something else
		r.Arrived(secret)
		publish(4, secret.Key)
		r.Arrived(source.Change{Key: web})
		publish(5, web)
		r.Settle(Settled{Generation: 2, Delivery: page.Delivery{Proxies: 7}})
		r.Settle(Settled{Generation: 9, Delivery: page.Delivery{Proxies: 7}}) // not known
	})
	require.Len(t, all, 6)
	require.True(t, all[5].Start)
	of := func(n int) page.Cause {
		require.Len(t, all[5-n].Causes, 1)
		return all[5-n].Causes[0]
	}
	require.Equal(t, page.Created, of(1).Verb)
	require.Equal(t, page.Cause{
		Kind: "VirtualService", Namespace: "shop", Name: "web", Verb: page.Changes,
		Manager: "kubectl", Written: at.Time,
		Fields: []page.FieldChange{
			{Path: "spec.http[a]", Before: `{"name":"a"}`}, {Path: "spec.http[b]", After: `{"name":"b"}`},
		},
	}, of(2))
	require.Equal(t, &page.Delivery{Proxies: 7}, all[3].Delivery)
	require.Empty(t, of(3).Fields)
	require.Equal(t, page.Cause{Kind: "Secret", Namespace: "shop", Name: "tls", Verb: page.Changes}, of(4))
	require.Equal(t, page.Deleted, of(5).Verb)
}

// TestTheStartIsNoChange: of the first generation it is known what is there, and nothing is told.
func TestTheStartIsNoChange(t *testing.T) {
	web := virtualService("a").Key
	all := recorded(t, func(r *Recorder) {
		r.Arrived(virtualService("a"))
		r.Publish(Published{Generation: 1, At: begin, Changed: []source.Key{web}})
		r.Arrived(virtualService("b"))
		r.Publish(Published{Generation: 2, At: begin, Changed: []source.Key{web}})
	})
	require.Empty(t, all[1].Causes)
	require.Equal(t, page.Changes, all[0].Causes[0].Verb)
	require.Len(t, all[0].Causes[0].Fields, 2)
}

// TestWhatPeopleWriteComesFirst: among many causes, and all of them are found.
func TestWhatPeopleWriteComesFirst(t *testing.T) {
	changed := []source.Key{}
	for n := range maxCauses + 5 {
		changed = append(changed, source.Key{Kind: kinds.EndpointSlice, Namespace: "shop", Name: fmt.Sprint(n)})
	}
	changed = append(changed, virtualService("a").Key)
	all := recorded(t, func(r *Recorder) {
		r.Publish(Published{At: begin})
		r.Arrived(virtualService("a"))
		r.Publish(Published{Generation: 1, At: begin, Changed: changed})
	})
	require.Equal(t, "VirtualService", all[0].Causes[0].Kind)
	require.Equal(t, 6, all[0].MoreCauses)
}

// states are those of a class with clusters of these contents, by name.
func states(of map[string]string) resource.State {
	store := resource.NewStore()
	var list []*resource.Resource
	for name, body := range of {
		list = append(list, resource.New(name, []byte(body)))
	}
	return resource.NewState(1).With(resource.Cluster, store.Build(list...))
}

// TestAGenerationNamesItsResources: by what classes and proxies got, and no more than people read.
func TestAGenerationNamesItsResources(t *testing.T) {
	was, is := states(map[string]string{"a": "1", "b": "1"}), states(map[string]string{"a": "2", "c": "1"})
	many := map[string]string{"a": "1", "b": "1"}
	for n := range maxResources + 10 {
		many[fmt.Sprint("n", n)] = "1"
	}
	all := recorded(t, func(r *Recorder) {
		r.Publish(Published{At: begin})
		r.Publish(Published{Generation: 1, At: begin, States: []resource.ClassState{
			{Class: 9, Was: was, State: is}, {Class: 4, Was: was, State: is}, {Class: 5, State: was},
		}, Moved: []Move{
			{Proxy: "x.shop", From: 9, To: 7, Was: is, State: is}, // its class had another state before
			{Proxy: "y.shop", From: 3, To: 7, Was: is, State: is},
		}})
		r.Publish(Published{Generation: 2, At: begin, States: []resource.ClassState{
			{Class: 9, Was: was, State: states(many)},
		}})
	})
	version := func(body string) string { return resource.New("", []byte(body)).Version().String() }
	groups := all[1].Groups
	require.Len(t, groups, 3)
	require.Equal(t, []uint64{9, 4}, groups[0].Classes)
	require.Equal(t, []string{"x.shop"}, groups[0].Proxies)
	require.ElementsMatch(t, []page.ChangedName{
		{Type: "cds", Name: "a", Verb: page.Changes, Before: version("1"), After: version("2")},
		{Type: "cds", Name: "b", Verb: page.Deleted, Before: version("1")},
		{Type: "cds", Name: "c", Verb: page.Created, After: version("1")},
	}, groups[0].Resources)
	require.Equal(t, page.Group{Classes: []uint64{5}, Unknown: true}, groups[1])
	require.Equal(t, page.Group{Proxies: []string{"y.shop"}}, groups[2])
	require.Equal(t, []page.MovedProxy{
		{Proxy: "x.shop", From: 9, To: 7}, {Proxy: "y.shop", From: 3, To: 7},
	}, all[1].Moved)
	require.Len(t, all[0].Groups[0].Resources, maxResources)
	require.Equal(t, 10, all[0].Groups[0].MoreResources)
}

// TestReportsAreDropped: whoever reports is not held up, and what the objects are is known all the
// same.
func TestReportsAreDropped(t *testing.T) {
	dropped, store := 0, NewStore(1<<20)
	r := NewRecorder(Options{Store: store, Dropped: func() { dropped++ }})
	for n := range inbox {
		r.Publish(Published{Generation: uint64(n), At: begin})
	}
	web := virtualService("a").Key
	for _, route := range []string{"a", "b", "c"} {
		r.Arrived(virtualService(route))
		r.Publish(Published{At: begin, Changed: []source.Key{web}})
	}
	require.GreaterOrEqual(t, dropped, 3)
	<-r.reports
	<-r.reports
	r.Arrived(virtualService("d"))
	r.Publish(Published{At: begin, Changed: []source.Key{web}})
	for range inbox - 2 {
		<-r.reports
	}
	(<-r.reports).(func())() // what is known beside it
	last := (<-r.reports).(caused)
	told := r.entryOf(&last).Causes[0]
	require.Equal(t, page.Changes, told.Verb)
	require.Equal(t, "spec.http[c]", told.Fields[0].Path)
}

// TestWhatComesToNothingIsForgotten: a change that makes no generation is not kept, but known.
func TestWhatComesToNothingIsForgotten(t *testing.T) {
	r := NewRecorder(Options{Store: NewStore(1 << 20)})
	c := virtualService("a")
	r.Publish(Published{Generation: 1, At: c.ObservedAt})
	r.Arrived(c)
	r.Publish(Published{Generation: 2, At: c.ObservedAt})
	require.Len(t, r.arrived, 1, "its generation may be held")
	r.Publish(Published{Generation: 3, At: c.ObservedAt.Add(2 * stale)})
	require.Empty(t, r.arrived)
	<-r.reports
	<-r.reports
	(<-r.reports).(func())()
	require.Contains(t, r.objects.known, c.Key)
	third := (<-r.reports).(caused)
	e := r.entryOf(&third)
	require.Equal(t, c.Key, e.Objects[0].Key)
	require.Equal(t, c.ObservedAt, e.Objects[0].At)
	require.Empty(t, e.Causes)
	require.Empty(t, r.beside)
}

// TestObjectsHaveABudget: of those for which there is no place only the names are known.
func TestObjectsHaveABudget(t *testing.T) {
	o := newObjects(1000)
	key := func(n int) source.Key { return source.Key{Kind: kinds.VirtualService, Name: fmt.Sprint(n)} }
	for n := range 20 {
		o.keep(key(n), packed{Meta: []byte(strings.Repeat("x", 100))})
	}
	require.LessOrEqual(t, o.size, 1000+20*packedOverhead)
	require.Len(t, o.known, 20)
	told, before := o.change(cause{Key: key(19), arrived: true})
	require.Equal(t, page.Changes, told.Verb)
	require.Empty(t, told.Fields)
	require.Equal(t, replaced{Key: key(19)}, before)
	for n := range 20 {
		o.forget(key(n))
	}
	require.Zero(t, o.size)
}

// TestTheStartIsHandedOverInParts: all that is there then is known, however much it is.
func TestTheStartIsHandedOverInParts(t *testing.T) {
	r := NewRecorder(Options{Store: NewStore(1 << 20), Dropped: func() { t.Error("a report was dropped") }})
	const all = 2*atOnce + 1
	for n := range all {
		c := virtualService("a")
		c.Key.Name = fmt.Sprint(n)
		r.Arrived(c)
	}
	require.Len(t, r.first, 1)
	require.Empty(t, r.arrived)
	r.Publish(Published{Generation: 1, At: begin})
	for range 3 {
		(<-r.reports).(func())()
	}
	require.Len(t, r.objects.known, all)
	require.True(t, (<-r.reports).(caused).start)
}

// TestWhatCameIntoViewIsNotMade: an object that says that it is older than that was not created.
func TestWhatCameIntoViewIsNotMade(t *testing.T) {
	o := newObjects(1 << 20)
	for made, verb := range map[time.Time]string{
		begin.Add(-2 * time.Second): page.Created, begin.Add(-time.Hour): page.Changes, {}: page.Created,
	} {
		c := virtualService("a")
		c.Object.SetCreationTimestamp(metav1.NewTime(made))
		k := source.Key{Kind: kinds.VirtualService, Name: made.String()}
		told, before := o.change(cause{k, arrival{object: c.Object, at: begin}, true})
		require.Equal(t, verb, told.Verb, made)
		require.Equal(t, made, before.Created)
	}
}

// TestEndpointsPushNothingOut: when a generation is not among the newest any more, the bodies of
// large assignments are forgotten, and the others kept.
func TestEndpointsPushNothingOut(t *testing.T) {
	e := generationOf(1)
	large := strings.Repeat("x", maxEndpoints+1)
	e.Undo = append(e.Undo,
		undo{Type: resource.Endpoint, Name: "large", Body: []byte(large), Kept: true},
		undo{Type: resource.Endpoint, Name: "small", Body: []byte(large[1:]), Kept: true},
		undo{Type: resource.Cluster, Name: "cluster", Body: []byte(large), Kept: true},
	)
	b := sealed([]*entry{e})
	opened := b.open()[0]
	require.True(t, e.Undo[1].Kept, "another may read it")
	for i, kept := range []bool{true, false, true, true} {
		require.Equal(t, kept, opened.Undo[i].Kept, i)
		require.Equal(t, kept, len(opened.Undo[i].Body) > 0, i)
	}
}
