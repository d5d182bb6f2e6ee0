package compile

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The edits that a class takes over from another are those that it comes to when it compiles the
// units itself. So whatever a unit depends on is recorded.
func TestWhatClassesShareIsWhatEachComesTo(t *testing.T) {
	takenOver := 0
	rapid.Check(t, func(r *rapid.T) {
		o := newOracle(t)
		for _, f := range proxiesAlike() {
			o.join(f)
		}
		o.stepShared(r, stateUpdates(o.history.Begin(r)))
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			var updates []state.Update
			for _, c := range random(r, o.history) {
				updates = append(updates, stateUpdates(c.Updates)...)
			}
			takenOver += o.stepShared(r, updates)
		}
	})
	t.Logf("taken over: %d", takenOver)
	require.NotZero(t, takenOver)
}

// proxiesAlike are of three namespaces, and differ in one thing or another.
func proxiesAlike() []Facts {
	var list []Facts
	for _, namespace := range []string{"default", "shop", "istio-system"} {
		for _, labels := range []map[string]string{nil, {"app": "a", "version": "v1", model.GatewayNameLabel: "g"}} {
			for _, settings := range []scope.Settings{
				{HTTPProxyPort: 15080}, {HTTPProxyPort: 9080, FiltersApart: true}, {HTTPProxyPort: 15080, HTTP10: true},
				{HTTPProxyPort: 15080, Agent: true, IstioFilters: true}, {HTTPProxyPort: 15080, Stack: model.DualStack},
				{HTTPProxyPort: 15080, Intercepted: true},
			} {
				p := scope.Proxy{Namespace: namespace, Name: "none", Labels: model.LabelsOf(labels), Settings: settings}
				p.Address = fmt.Sprintf("127.5.0.%d", 1+len(list))
				list = append(list, Facts{Proxy: p})
			}
		}
	}
	return list
}

// stepShared takes a step, and compares what classes share in it. It returns how many took
// something over from another.
func (o *oracle) stepShared(t *rapid.T, updates []state.Update) (takenOver int) {
	before := map[*class]scope.Scope{}
	for _, c := range o.comp.list {
		before[c] = c.scope
	}
	_, d := o.applyHeld(t, updates)
	if d.IsEmpty() {
		return 0
	}
	o.comp.Advance(d, func(Step) {})
	m := o.comp.builder.impactOf(d, &endpointFastPath{}, false)
	m.steps = newStepCache(m)
	defer m.steps.close()
	first := map[*sharedEdit]bool{}
	for _, c := range o.comp.list {
		from, was := before[c]
		if !was || m.noUnits {
			continue
		}
		to := o.comp.builder.scope(d.To, c)
		if narrowed, narrow := m.forClass(&from, to); !narrow || narrowed != m {
			continue
		}
		e := m.steps.editFor(o.comp.builder, m, &from, to)
		if e != nil && first[e] {
			takenOver++
			requireShared(t, o.comp.builder, m, e, &from, to)
		}
		first[e] = true
	}
	return takenOver
}

// requireShared compares a shared edit with what a class comes to.
func requireShared(t *rapid.T, builder unitBuilder, m *impact, shared *sharedEdit, from, to *scope.Scope) {
	units, causes := m.units(from, to)
	requireCauses(t, m, causes)
	own := &sharedEdit{units: units, edits: newEdits(nil, from, to)}
	builder.compileUnits(own.units, from, to, own.edits, func(u unit, p source.Problem) {
		own.problems = append(own.problems, unitProblem{u, p})
	})
	require.Equal(t, own.units, shared.units)
	require.Equal(t, own.problems, shared.problems)
	require.Equal(t, textOfEdits(own.edits), textOfEdits(shared.edits))
}

// textOfEdits are the edits, sorted.
func textOfEdits(e *edits) []string {
	var lines []string
	line := func(parts ...any) { lines = append(lines, fmt.Sprintln(parts...)) }
	version := func(r *resource.Resource) string {
		if r == nil {
			return "goes"
		}
		return r.Version().String()
	}
	for typ, list := range e.sets {
		for _, edit := range list {
			line(resource.Type(typ), edit.Name, version(edit.Resource))
		}
	}
	for table, vhosts := range e.vhosts {
		for name, r := range vhosts {
			line(table, name, version(r))
		}
	}
	for name, head := range e.heads {
		line("head", name, version(head))
	}
	for _, edit := range e.matches {
		line("matches", edit.Name, version(edit.Resource))
	}
	for at, v := range e.varied {
		if v == nil {
			line("varied", at)
			continue
		}
		line("varied", at, v.key, slices.Collect(v.keys.All()))
		if l := v.cluster; l != nil {
			line("varied", at, l.in, l.prefer, l.found.sites)
		}
	}
	slices.Sort(lines)
	return lines
}

// What turns units into resources reaches a snapshot or a class only through the Scope that it is
// given.
func TestUnitBuildersHoldNoSnapshotAndNoClass(t *testing.T) {
	forbidden := []reflect.Type{
		reflect.TypeFor[state.Snapshot](), reflect.TypeFor[scope.Class](), reflect.TypeFor[class](),
		reflect.TypeFor[Compiler](),
	}
	seen := map[reflect.Type]bool{reflect.TypeFor[scope.Scope](): true}
	var look func(at reflect.Type, path string)
	look = func(at reflect.Type, path string) {
		if seen[at] {
			return
		}
		seen[at] = true
		require.NotContains(t, forbidden, at, path)
		switch at.Kind() {
		case reflect.Struct:
			for i := range at.NumField() {
				look(at.Field(i).Type, path+"."+at.Field(i).Name)
			}
		case reflect.Map:
			look(at.Key(), path+" key")
			look(at.Elem(), path+" element")
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			look(at.Elem(), path)
		}
	}
	look(reflect.TypeFor[unitBuilder](), "compiler")
	look(reflect.TypeFor[chainBuilder](), "chainBuilder")
	look(reflect.TypeFor[clusterBuilder](), "clusterBuilder")
	look(reflect.TypeFor[serverChainBuilder](), "serverChainBuilder")
}

// Every field of a delta makes the classes be asked, unless no unit is known to read it or its
// hosts are found otherwise.
func TestOnlyChangesThatNoUnitReadsAskNoClass(t *testing.T) {
	quiet := []string{"Workloads", "Nodes", "Endpoints", "Accounts", "AutoAddresses", "GatewayAPIStatuses"}
	about := []string{"From", "To", "Changed", "Observed"} // the delta itself
	var loud []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[state.Delta]()) {
		var d state.Delta
		switch v := reflect.ValueOf(&d).Elem().FieldByIndex(f.Index); v.Kind() {
		case reflect.Slice:
			v.Set(reflect.MakeSlice(f.Type, 1, 1))
		case reflect.Bool:
			v.SetBool(true)
		}
		if m := (&impact{delta: &d}); !m.touchesNoUnit() {
			loud = append(loud, f.Name)
		} else {
			require.Contains(t, slices.Concat(quiet, about), f.Name)
		}
	}
	require.NotEmpty(t, loud)
	for _, name := range quiet {
		require.NotContains(t, loud, name)
	}
}

// A policy for the whole mesh is compiled once for the workloads that serve the same ports,
// whatever their namespaces.
func TestMeshWidePolicyIsCompiledOnce(t *testing.T) {
	m := newMeshOf(t, 100)
	p := &model.PeerAuthentication{
		Meta: model.Meta{
			Kind:      kinds.PeerAuthentication,
			Namespace: model.DefaultMesh().RootNamespace,
			Name:      "default",
		},
		Mode: model.MTLSStrict,
	}
	work := m.workOf(func() { m.apply(state.Update{Key: p.Key(), Objects: []model.Object{p}}) })
	require.EqualValues(t, 1, work.Units)
}

// What a host that is a short name comes to depends on the namespace. Classes of one namespace
// share it, those of others do not.
func TestAShortNameIsSharedWithinANamespace(t *testing.T) {
	m := newMeshOf(t, 100)
	selecting := serviceNumber(1, 0)
	changed := selecting.Objects[0].(*model.Service)
	changed.Selector, changed.Ports[0].Target = model.LabelsOf(map[string]string{"app": "a"}), 8080
	m.apply(selecting)
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address:   "127.0.0.3",
		Namespace: "ns1", Name: "q", Labels: changed.Selector, Settings: scope.Settings{HTTPProxyPort: 15080},
	}}, func(*Member, Placement) {})
	require.Equal(t, namespaces+1, m.compiler.Stats().Classes)
	short := &model.Service{
		Meta: model.Meta{Kind: kinds.ServiceEntry, Namespace: "ns7", Name: "short"}, Host: "svc1",
		ExportTo: model.Exports{All: true}, Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP}},
	}
	work := m.workOf(func() { m.apply(state.Update{Key: short.Key(), Objects: []model.Object{short}}) })
	require.EqualValues(
		t, namespaces+1, work.Units, "the host for each namespace, and in ns1 who has had the name so far",
	)
	for _, c := range m.compiler.list {
		name := resource.VirtualHostName(httpProxyTable, "svc1.ns1.svc.cluster.local:80")
		before := c.state.Set(resource.VirtualHost).Get(name)
		require.NotContains(t, before.Domains(), "svc1", c.key.Namespace)
	}
}
