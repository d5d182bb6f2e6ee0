package state

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func meta(k kinds.Kind, namespace, name string) model.Meta {
	return model.Meta{Kind: k, Namespace: namespace, Name: name}
}

func update(o model.Object, m model.Meta) Update {
	return Update{Key: m.Key(), Objects: []model.Object{o}}
}

func kubeService(namespace, name string) Update {
	m := meta(kinds.Service, namespace, name)
	return update(&model.Service{Meta: m, Host: model.Resolve(
		name, namespace, "cluster.local",
	), Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP}}}, m)
}

func pod(name string, labels map[string]string) Update {
	m := meta(kinds.Pod, "default", name)
	return update(&model.Workload{Meta: m, Labels: model.LabelsOf(labels), Addresses: []string{"127.0.0.7"}}, m)
}

func endpointSlice(name string, hosts ...model.SliceHost) Update {
	m := meta(kinds.EndpointSlice, "default", name)
	return update(&model.EndpointSlice{
		Meta: m, Service: "a", Ports: []model.SlicePort{{Name: "http", Port: 8080}}, Hosts: hosts,
	}, m)
}

func gone(u Update) Update { return Update{Key: u.Key} }

func endpointsOf(s *Snapshot) map[EndpointID]model.Endpoint {
	svc := first(s.Claims("a.default.svc.cluster.local"))
	return maps.Collect(s.Endpoints(svc).All())
}

// first is the winner of a sequence, nil if it has none.
func first(claims iter.Seq[*model.Service]) *model.Service {
	for svc := range claims {
		return svc
	}
	return nil
}

func TestASliceWaitsForItsPods(t *testing.T) {
	w := NewWriter()
	now, d := w.Apply([]Update{
		kubeService("default", "a"), endpointSlice("s", model.SliceHost{Address: "127.0.0.7", Pod: "p"}),
	})
	require.Empty(t, endpointsOf(now))
	require.Equal(t, 1, now.Counts().PendingEndpoints)
	require.Empty(t, d.Endpoints)

	now, d = w.Apply([]Update{pod("p", map[string]string{"version": "v1"})})
	require.Len(t, endpointsOf(now), 1)
	require.Zero(t, now.Counts().PendingEndpoints)
	require.Len(t, d.Endpoints, 1)

	now, d = w.Apply([]Update{pod("p", map[string]string{"version": "v2"})})
	version, _ := endpointsOf(now)["127.0.0.7:8080/http"].Labels.Get("version")
	require.Equal(t, "v2", version)
	require.Equal(t, []EndpointID{"127.0.0.7:8080/http"}, d.Endpoints[0].IDs)

	now, _ = w.Apply([]Update{gone(pod("p", nil))})
	require.Empty(t, endpointsOf(now))
	require.Equal(t, 1, now.Counts().PendingEndpoints)
}

func TestApplyKeepsThePointersOfWhatIsEqual(t *testing.T) {
	w := NewWriter()
	before, _ := w.Apply([]Update{kubeService("default", "a"), kubeService("default", "b")})
	after, d := w.Apply([]Update{kubeService("default", "a")})
	require.Same(t, before, after)
	require.True(t, d.IsEmpty())
	changed := kubeService("default", "b")
	changed.Objects[0].(*model.Service).Headless = true
	after, d = w.Apply([]Update{kubeService("default", "a"), changed})
	require.Equal(t, []source.Key{changed.Key}, d.Changed)
	require.Same(t, first(
		before.Claims("a.default.svc.cluster.local"),
	), first(after.Claims("a.default.svc.cluster.local")))
}

func TestClaimsAreInTheTotalOrder(t *testing.T) {
	w := NewWriter()
	entry := func(namespace, name string, created int64) Update {
		m := meta(kinds.ServiceEntry, namespace, name)
		m.Created = created
		return update(&model.Service{Meta: m, Host: "a.default.svc.cluster.local"}, m)
	}
	now, _ := w.Apply([]Update{
		entry("b", "young", 9), entry("a", "late", 9), entry("z", "old", 3), kubeService("default", "a"),
	})
	var names []string
	for svc := range now.Claims("a.default.svc.cluster.local") {
		names = append(names, svc.Name)
	}
	require.Equal(t, []string{"a", "old", "late", "young"}, names)
}

func TestHostsUnderAPattern(t *testing.T) {
	w := NewWriter()
	now, _ := w.Apply([]Update{kubeService("shop", "a"), kubeService("shop", "b"), kubeService("workshop", "c")})
	require.ElementsMatch(t, []model.Host{
		"a.shop.svc.cluster.local", "b.shop.svc.cluster.local",
	}, slices.Collect(now.HostsUnder("*.shop.svc.cluster.local")))
	require.Len(t, slices.Collect(now.HostsUnder("*")), 3)
	require.Equal(t, []model.Host{"nobody"}, slices.Collect(now.HostsUnder("nobody")))
	now, _ = w.Apply([]Update{gone(kubeService("shop", "a"))})
	require.Len(t, slices.Collect(now.HostsUnder("*.shop.svc.cluster.local")), 1)
}

func TestCauseNamesWhatChanged(t *testing.T) {
	d := &Delta{}
	for i, want := range []string{
		"nothing", "Service default/a", "Service default/a, Service default/b", "Service default/a and 2 more",
	} {
		require.Equal(t, want, d.Cause())
		d.Changed = append(
			d.Changed,
			source.Key{Kind: kinds.Service, Namespace: "default", Name: string(rune('a' + i))},
		)
	}
}

func selectingEntry(name string, selector map[string]string) Update {
	m := meta(kinds.ServiceEntry, "default", name)
	return update(&model.Service{
		Meta: m, Host: "a.default.svc.cluster.local", Selector: model.LabelsOf(selector), Ports: []model.ServicePort{
			{Name: "http", Port: 80, Target: 8080},
		},
	}, m)
}

// Of several entries for one host the first has it, with its own endpoints; those of the others
// come with their turn.
func TestEntriesForOneHostSelectForThemselves(t *testing.T) {
	w := NewWriter()
	one, two := map[string]string{"app": "one"}, map[string]string{"app": "two"}
	whose := func(now *Snapshot) string {
		var labels []string
		for _, e := range endpointsOf(now) {
			labels = append(labels, e.Labels.String())
		}
		return strings.Join(labels, " ")
	}
	now, _ := w.Apply([]Update{selectingEntry("one", one), selectingEntry("two", two), pod("p", one), pod("q", two)})
	require.Equal(t, "app=one", whose(now))
	now, d := w.Apply([]Update{gone(selectingEntry("two", nil))})
	require.Equal(t, "app=one", whose(now))
	for _, e := range d.Endpoints {
		require.Equal(t, "two", e.Entry)
	}
	now, _ = w.Apply([]Update{selectingEntry("two", two), gone(selectingEntry("one", nil))})
	require.Equal(t, "app=two", whose(now))
}

// A changed pod costs what selects endpoints among workloads, not the services of its namespace.
func TestAPodTouchesNoServiceOfKubernetes(t *testing.T) {
	w := NewWriter()
	app := map[string]string{"app": "a"}
	service := kubeService("default", "b")
	service.Objects[0].(*model.Service).Selector = model.LabelsOf(app)
	w.Apply([]Update{service, pod("p", app)})

	b := newBatch(w.Snapshot())
	b.replace(nil, pod("q", app).Objects)
	j := &joiner{b: b, touched: map[serviceID]*endpointEdit{}, before: b.from, after: b.next}
	j.swapWorkload(b.delta.Workloads[0])
	require.Empty(t, j.touched)
}
