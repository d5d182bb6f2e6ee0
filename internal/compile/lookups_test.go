package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// machines is a ServiceEntry of resolution DNS that selects WorkloadEntries.
func machines() *model.Service {
	s := aloneService("machines", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP, Target: 80})
	s.Kind, s.Resolution, s.Selector = kinds.ServiceEntry, model.StrictDNS, machineLabels()
	return s
}

func machineLabels() model.Labels { return model.LabelsOf(map[string]string{"app": "machine"}) }

func machine(name string, at model.Locality) *model.WorkloadEntry {
	return &model.WorkloadEntry{
		Meta: aloneMeta(kinds.WorkloadEntry, name), Labels: machineLabels(), Address: name + ".test", Locality: at,
	}
}

// forMachines is a rule for their host, with a way to prefer places.
func forMachines(lb *model.LocalityLB) *model.DestinationRule {
	return &model.DestinationRule{
		Meta: aloneMeta(kinds.DestinationRule, "machines"), ExportTo: everywhere, Host: machines().Host,
		Policy: &model.TrafficPolicy{
			Outlier: &model.OutlierDetection{}, LB: &model.LoadBalancer{Locality: lb},
		},
	}
}

func proxyAt(n int) scope.Proxy {
	return scope.Proxy{
		Namespace: "default", Name: fmt.Sprint("p", n), Place: &scope.Place{Locality: zone(n)},
		Settings: scope.Settings{HTTPProxyPort: 15080, Agent: true},
	}
}

// waysToPrefer are rules for machines, by what they prefer; nil is no rule.
func waysToPrefer() map[string]*model.DestinationRule {
	near, far := model.LocalityPattern(zone(0)), model.LocalityPattern(zone(1))
	return map[string]*model.DestinationRule{
		"nothing":     nil,
		"close":       forMachines(&model.LocalityLB{}),
		"same labels": forMachines(&model.LocalityLB{FailoverPriority: []model.PriorityLabel{{Key: model.ZoneLabel}}}),
		"by parts": forMachines(&model.LocalityLB{Distribute: []model.Distribute{
			{From: near, To: []model.LocalityShare{{To: near, Percent: 70}, {To: far, Percent: 30}}},
			{From: far, To: []model.LocalityShare{{To: near, Percent: 30}, {To: far, Percent: 70}}},
		}}),
		"by parts, some to nobody": forMachines(&model.LocalityLB{Distribute: []model.Distribute{
			{From: near, To: []model.LocalityShare{{To: near, Percent: 100}}},
		}}),
	}
}

// One part of a workload whose name is looked up changes alone: it stands in the cluster.
func TestOnePartOfALookupChanges(t *testing.T) {
	for prefer, rule := range waysToPrefer() {
		for name, change := range map[string]func(*model.WorkloadEntry){
			"its address": func(e *model.WorkloadEntry) { e.Address = "other.test" },
			"its port":    func(e *model.WorkloadEntry) { e.Ports = model.PortNamesOf(map[string]uint16{"http": 81}) },
			"its weight":  func(e *model.WorkloadEntry) { e.Weight = 3 },
			"its health":  func(e *model.WorkloadEntry) { e.Health = model.Unhealthy },
			"its place":   func(e *model.WorkloadEntry) { e.Locality = zone(1) },
			"its name for telemetry": func(e *model.WorkloadEntry) {
				e.Labels = e.Labels.With("service.istio.io/canonical-name", "x")
			},
			"that it takes TLS": func(e *model.WorkloadEntry) {
				e.Labels = e.Labels.With(model.TLSModeLabel, model.TLSModeIstio)
			},
		} {
			t.Run(prefer+"/"+name, func(t *testing.T) {
				is := machine("a", zone(0))
				change(is)
				all := []model.Object{machines(), machine("a", zone(0)), machine("b", zone(1))}
				if rule != nil {
					all = append(all, rule)
				}
				was := []model.Object{machine("a", zone(0))}
				requireFollowsUpdates(t, proxyAt(0), [][]state.Update{
					updatesOf(all), updatesOf([]model.Object{is}), updatesOf(was),
				})
			})
		}
	}
}

// A Service of type ExternalName is its name, whatever its selector and its slices say: these
// change without a change of its cluster.
func TestAServiceThatIsANameHasNoOtherEndpoints(t *testing.T) {
	named := machines()
	named.Kind = kinds.Service
	named.Host = model.Resolve(named.Name, named.Namespace, "cluster.local")
	named.Endpoints = []model.Endpoint{{Address: "elsewhere.test", Port: 80, PortName: "http"}}
	slice := func(address string) []state.Update {
		return updatesOf([]model.Object{&model.EndpointSlice{
			Meta: aloneMeta(kinds.EndpointSlice, "machines-1"), Service: named.Name,
			Ports: []model.SlicePort{{Name: "http", Port: 80}},
			Hosts: []model.SliceHost{{Address: address, Health: model.Healthy}},
		}})
	}
	w, c := state.NewWriter(), NewCompiler(refuseNothing(t))
	c.Join(Facts{Proxy: proxyAt(0), Account: gatewayPod().ServiceAccount}, func(*Member, Placement) {})
	for _, updates := range [][]state.Update{
		updatesOf([]model.Object{named}), slice("127.1.0.1"), slice("127.1.0.2"),
	} {
		_, d := w.Apply(updates)
		c.Advance(d, func(Step) {})
		for m := range c.members.all() {
			require.Equal(t, dump(placeIn(t, w.Snapshot(), m.known.Proxy).state), dump(m.variant.state))
		}
	}
}

// Proxies of one class at two places see the endpoints of a cluster in orders of their own, through
// all changes: what each has is what it gets alone, from nothing.
func TestEachPlaceHasItsOwnOrderOfLookups(t *testing.T) {
	unruled := state.Update{Key: forMachines(nil).Key()}
	for prefer, rule := range waysToPrefer() {
		if rule == nil {
			continue
		}
		t.Run(prefer, func(t *testing.T) {
			w, c := state.NewWriter(), NewCompiler(refuseNothing(t))
			for n := range 2 {
				c.Join(Facts{Proxy: proxyAt(n), Account: gatewayPod().ServiceAccount}, func(*Member, Placement) {})
			}
			static := machines()
			static.Resolution = model.EDS
			moved := machine("a", zone(1))
			for _, updates := range [][]state.Update{
				updatesOf([]model.Object{machines(), machine("a", zone(0)), machine("b", zone(1))}),
				updatesOf([]model.Object{rule}),
				updatesOf([]model.Object{moved}),
				updatesOf([]model.Object{machine("a", zone(0)), machine("c", zone(2))}),
				updatesOf([]model.Object{static}),
				updatesOf([]model.Object{machines()}),
				{unruled},
				updatesOf([]model.Object{rule}),
				{{Key: machine("b", zone(1)).Key()}},
				{{Key: machine("c", zone(2)).Key()}},
			} {
				_, d := w.Apply(updates)
				c.Advance(d, func(Step) {})
				for m := range c.members.all() {
					alone := placeIn(t, w.Snapshot(), m.known.Proxy)
					require.Equal(t, dump(alone.state), dump(m.variant.state))
				}
			}
		})
	}
}

// Endpoints at one place alone are none for callers whose parts (distribute) leave that place out.
func TestAPlaceWithoutAPartIsLeftOut(t *testing.T) {
	near := model.LocalityPattern(zone(0))
	rule := forMachines(&model.LocalityLB{Distribute: []model.Distribute{
		{From: near, To: []model.LocalityShare{{To: near, Percent: 100}}},
	}})
	w := state.NewWriter()
	w.Apply(updatesOf([]model.Object{machines(), machine("far", zone(1)), rule}))
	of := func(n int) map[string]resource.Version { return dump(placeIn(t, w.Snapshot(), proxyAt(n)).state) }
	require.NotEqual(t, of(0), of(1))
}

// A changed WorkloadEntry makes the cluster that has its address again, and no other, whoever sees
// it.
func TestAChangedWorkloadEntryMakesItsClusterAlone(t *testing.T) {
	m := newMeshOf(t, 100)
	other := machines()
	other.Name, other.Host = "others", "others.test"
	other.Selector = model.LabelsOf(map[string]string{"app": "other"})
	beside := machine("beside", model.Locality{})
	beside.Labels = other.Selector
	m.apply(updatesOf([]model.Object{machines(), other, machine("a", model.Locality{}), beside})...)
	made := func() uint64 { return m.compiler.Stats().Translate["cluster"].Misses }
	before := made()
	changed := machine("a", model.Locality{})
	changed.Address = "moved.test"
	m.apply(updatesOf([]model.Object{changed})...)
	require.Equal(t, uint64(1), made()-before)
	require.Len(t, m.last.Changed, namespaces)
}
