package compile

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// addedKind is what patches of EnvoyFilters add to a class: clusters, listeners, and filters that
// are resources of their own. A class has one such unit. Virtual hosts are added where their table
// is edited (editTables).
type addedKind struct{}

func (addedKind) String() string { return "added" }

func (addedKind) all(s *scope.Scope, add func(unit)) {
	if len(s.EnvoyFilters()) > 0 {
		add(unit{kind: addedKind{}})
	}
}

func (addedKind) mark(*impact) {}

func (addedKind) differs(*impact, *scope.Class, *scope.Class) {}

func (addedKind) touched(m *impact, _, _ *scope.Scope, found causes[unit]) {
	if m.patches != nil {
		found.add(unit{kind: addedKind{}}, m.patches.by)
	}
}

func (addedKind) slots(b unitBuilder, s *scope.Scope, _ unit, report func(source.Problem)) []slot {
	set := b.patches.of(s)
	if set == nil {
		return nil
	}
	var slots []slot
	by := map[slotName]patch.Patch{}
	add := func(p patch.Patch, sl slot) {
		name := slotName{sl.typ, sl.name}
		first, taken := by[name]
		if !taken {
			by[name], slots = p, append(slots, sl)
		} else if first.Value != p.Value {
			report(addedTwice(p, first))
		}
	}
	for _, p := range set.list {
		for _, context := range contextsOf(s) {
			if in, typ := addedBy(p, context); in != (addedInput{}) {
				add(p, slot{typ: typ, name: p.Value.Name, get: func() emitted {
					return b.added.get(in).by(slotName{typ, p.Value.Name}, p)
				}})
			}
		}
	}
	for _, p := range set.apart {
		add(p, slot{typ: resource.Filter, name: p.Value.Name, get: func() emitted {
			return b.added.get(addedInput{p.ConfigPatch})
		}})
	}
	return slots
}

// by returns what a patch adds, with that it does.
func (r emitted) by(of slotName, p patch.Patch) emitted {
	if r.Resource != nil {
		r.matched = matchOfAdded(of, p)
	}
	return r
}

// slotName is a resource.
type slotName struct {
	typ  resource.Type
	name string
}

func addedTwice(p, first patch.Patch) source.Problem {
	return source.Problem{
		Severity: source.Error, Object: p.Owner,
		Path: pathOfPatch(refOf(p)) + ".patch.value", Value: p.Value.Name,
		Message: "is also what " + first.Owner.String() + " adds, which comes first; this one is left out",
		Want:    "another name",
	}
}

// contextsOf returns the sides of calls that a class has something for.
func contextsOf(s *scope.Scope) []model.PatchContext {
	if s.Type() == scope.Router {
		return []model.PatchContext{model.GatewayContext}
	}
	return []model.PatchContext{model.SidecarInbound, model.SidecarOutbound}
}

// addedInput is a patch that adds a resource, or a filter that is one. It is comparable.
type addedInput struct{ *model.ConfigPatch }

// addedBy returns what a patch adds for one side of calls; the zero input for nothing.
func addedBy(p patch.Patch, context model.PatchContext) (in addedInput, typ resource.Type) {
	if !patch.Adds(p, context) {
		return in, 0
	}
	typ = map[model.PatchTarget]resource.Type{
		model.PatchCluster:         resource.Cluster,
		model.PatchListener:        resource.Listener,
		model.PatchExtensionConfig: resource.Filter,
	}[p.Target]
	return addedInput{p.ConfigPatch}, typ
}

// addition makes the message that a patch adds. What its values are was checked when they were
// read.
func addition(in addedInput) made {
	of, err := patch.Addition(in.ConfigPatch)
	if err != nil {
		return made{}
	}
	m := made{name: in.Value.Name, message: of}
	if c, is := of.(*clusterv3.Cluster); is {
		m.traits.EDS = c.GetType() == clusterv3.Cluster_EDS
	}
	return m
}

// addedHostKey is a virtual host that a patch adds to a table.
type addedHostKey struct {
	table string
	in    addedInput
}

// addedHosts returns the virtual hosts that patches add to a table, by name.
func (b unitBuilder) addedHosts(s *scope.Scope, table string) map[string]emitted {
	set := b.patches.of(s)
	if set == nil || len(set.of[model.PatchVirtualHost]) == 0 {
		return nil
	}
	at, found := b.tableSite(s, table).site(table), map[string]emitted{}
	for _, p := range set.of[model.PatchVirtualHost] {
		if patch.AddsHost(p, at) && found[p.Value.Name].Resource == nil {
			of := slotName{resource.VirtualHost, resource.VirtualHostName(table, p.Value.Name)}
			found[p.Value.Name] = b.addedVhosts.get(addedHostKey{table, addedInput{p.ConfigPatch}}).by(of, p)
		}
	}
	return found
}

// declareAdditions declares what patches add.
func (t *translations) declareAdditions(e *emitter) {
	t.added = declare(e, "envoyfilter", addition)
	t.addedVhosts = declare(e, "envoyfilter_virtualhost", func(k addedHostKey) made {
		m := addition(k.in)
		m.table = k.table
		return m
	})
}

// editAddedHosts edits the virtual hosts that patches add to a table, if it exists.
func (c *class) editAddedHosts(builder unitBuilder, s *scope.Scope, table string, e *edits) {
	was, is := builder.addedHosts(&c.scope, table), builder.addedHosts(s, table)
	if len(was)+len(is) == 0 {
		return
	}
	for name := range was {
		if is[name].Resource == nil {
			e.editAddedHost(table, name, emitted{})
		}
	}
	head, edited := e.heads[table]
	exists := edited && head != nil || !edited && c.tables[table].head != nil
	for name, r := range is {
		if !exists {
			r = emitted{}
		}
		e.editAddedHost(table, name, r)
	}
}

func (e *edits) editAddedHost(table, name string, r emitted) {
	e.editVirtualHost(table, name, r.Resource)
	e.match(slot{typ: resource.VirtualHost, table: table, name: name}, r)
}

// addedByPatches returns how many virtual hosts of a table that it has after the edits so far are
// there because patches add them. They alone keep no table.
func (c *class) addedByPatches(builder unitBuilder, s *scope.Scope, table string, e *edits) (n int) {
	was, is := builder.addedHosts(&c.scope, table), builder.addedHosts(s, table)
	for name := range was {
		if c.willHave(e, table, name) {
			n++
		}
	}
	for name := range is {
		if was[name].Resource == nil && c.willHave(e, table, name) {
			n++
		}
	}
	return n
}
