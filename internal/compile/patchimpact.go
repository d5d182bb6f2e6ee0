package compile

import (
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
)

// patchImpact is what other patches of one class than before may touch.
type patchImpact struct {
	by cause
	// kinds are those of which all units are touched, as a patch may match any of them. Of other
	// kinds the touched units are in the impact.
	kinds []unitKind
	// ofListeners and ofTables say that patches change listeners, and route tables beside their
	// virtual hosts.
	ofListeners, ofTables bool
}

func (p *patchImpact) listeners() bool { return p != nil && p.ofListeners }

func (p *patchImpact) tables() bool { return p != nil && p.ofTables }

// addUnits adds all units of the kinds that a class had or has.
func (p *patchImpact) addUnits(from, to *scope.Scope, found causes[unit]) {
	if p == nil {
		return
	}
	for _, k := range p.kinds {
		for _, s := range []*scope.Scope{from, to} {
			k.all(s, func(u unit) { found.add(u, p.by) })
		}
	}
}

// touch adds a kind of which all units are touched.
func (p *patchImpact) touch(kinds ...unitKind) {
	for _, k := range kinds {
		if !slices.Contains(p.kinds, k) {
			p.kinds = append(p.kinds, k)
		}
	}
}

// patching adds to the impact what other patches of a class than before may touch. Such a class
// compiles its units for itself.
func (m *impact) patching(b unitBuilder, from, to *scope.Scope) *impact {
	was, is := b.patches.of(from), b.patches.of(to)
	if was == is {
		return m
	}
	of := m.clone()
	of.steps, of.patches = nil, &patchImpact{by: of.patchedBy(from, to)}
	of.by = of.patches.by
	for _, p := range differing(was.all(), is.all()) {
		of.addPatch(p, from, to)
	}
	return of
}

func (set *patchSet) all() []patch.Patch {
	if set == nil {
		return nil
	}
	return set.list
}

// patchedBy returns a changed EnvoyFilter that a class had or has; noObject if none changed.
func (m *impact) patchedBy(from, to *scope.Scope) cause {
	was, is := from.EnvoyFilters(), to.EnvoyFilters()
	for _, p := range m.delta.EnvoyFilters {
		if p.Old != nil && slices.Contains(was, p.Old) || p.New != nil && slices.Contains(is, p.New) {
			return m.causeOf(p.Either().Key())
		}
	}
	return noObject
}

// markFilters marks the hosts that changed EnvoyFilters make visible to gateways, or no more.
func (m *impact) markFilters() {
	for _, p := range m.delta.EnvoyFilters {
		m.because(p.Either().Key())
		if p.Old != nil && p.New != nil && slices.Equal(p.Old.Calls, p.New.Calls) &&
			model.Equal(&p.Old.Selection, &p.New.Selection) {
			continue
		}
		for _, f := range []*model.EnvoyFilter{p.Old, p.New} {
			if f != nil {
				for _, h := range f.Calls {
					m.addClaimants(h)
				}
			}
		}
	}
}

// addRenumbered adds the virtual hosts of the tables whose servers have other ports than before,
// where patches match tables by their ports.
func (m *impact) addRenumbered(from, to *scope.Scope, found causes[unit]) {
	if !matchesPorts(from) && !matchesPorts(to) {
		return
	}
	renumbered := map[string]cause{}
	for _, s := range []*scope.Scope{from, to} {
		for g, by := range m.gatewaysOf(s) {
			eachPort(s, g, func(at scope.Address) {
				table := plaintextTable(at)
				if !slices.Equal(portsOfTable(from, table), portsOfTable(to, table)) {
					renumbered[table] = by
				}
			})
		}
	}
	if len(renumbered) == 0 {
		return
	}
	for g := range to.Gateways() {
		eachGatewayHost(to, g, func(u unit) {
			if by, is := renumbered[u.table]; is {
				found.add(u, by)
			}
		})
	}
}

// matchesPorts reports whether patches of a class match route tables by their ports.
func matchesPorts(s *scope.Scope) bool {
	return slices.ContainsFunc(s.EnvoyFilters(), func(f *model.EnvoyFilter) bool {
		return slices.ContainsFunc(f.Patches, func(p *model.ConfigPatch) bool { return p.Route.Port != 0 })
	})
}

// differing returns the patches that only one of two lists has. Where those that both have stand in
// another order, it returns all.
func differing(a, b []patch.Patch) (found []patch.Patch) {
	in := func(list []patch.Patch) func(patch.Patch) bool {
		has := map[patch.Patch]bool{}
		for _, p := range list {
			has[p] = true
		}
		return func(p patch.Patch) bool { return has[p] }
	}
	inA, inB := in(a), in(b)
	onlyA, onlyB := slices.DeleteFunc(slices.Clone(a), inB), slices.DeleteFunc(slices.Clone(b), inA)
	both := slices.DeleteFunc(slices.Clone(a), func(p patch.Patch) bool { return !inB(p) })
	if !slices.Equal(both, slices.DeleteFunc(slices.Clone(b), func(p patch.Patch) bool { return !inA(p) })) {
		return slices.Concat(a, b)
	}
	return append(onlyA, onlyB...)
}

// addPatch adds what a patch may match in a class.
func (m *impact) addPatch(p patch.Patch, from, to *scope.Scope) {
	switch p.Target {
	case model.PatchCluster:
		if p.Operation != model.PatchAdd { // else it is addedKind's
			m.addPatchedHost(hostOfCluster(p.Cluster))
		}
	case model.PatchExtensionConfig:
	case model.PatchRouteConfiguration:
		m.patches.ofTables = true
		m.patches.touch(ownKind{}, gatewayKind{}, hostKind{})
	case model.PatchVirtualHost, model.PatchHTTPRoute:
		m.patches.ofTables = true
		m.addPatchedHost(hostOfVirtualHost(p.Route))
		m.patches.touch(gatewayHostKind{})
	default:
		m.patches.ofListeners = true
		m.patches.touch(ownKind{}, vipKind{}, gatewayKind{})
		for _, s := range []*scope.Scope{from, to} {
			for port := range listenerPorts(s) {
				if m.ports[port] == nil {
					m.ports[port] = causes[model.Host]{}
				}
			}
		}
	}
}

// addPatchedHost adds the units that make what a patch matches of a host, and what a proxy has
// whatever it calls; of all hosts if it is empty.
func (m *impact) addPatchedHost(host model.Host) {
	m.patches.touch(ownKind{})
	if host == "" {
		m.patches.touch(hostKind{})
		return
	}
	m.hosts.add(host, m.patches.by)
}

// hostOfCluster returns the only host whose clusters a match selects; empty for any.
func hostOfCluster(m model.ClusterMatch) model.Host {
	if parts := strings.Split(m.Name, "|"); len(parts) == 4 {
		return model.Host(parts[3])
	}
	if m.Name != "" {
		return ""
	}
	return m.Service
}

// hostOfVirtualHost returns the only host whose virtual hosts a match selects; empty for any.
func hostOfVirtualHost(m model.RouteMatch) model.Host {
	at := strings.LastIndexByte(m.Host, ':')
	if at < 0 {
		return ""
	}
	return model.Host(m.Host[:at])
}
