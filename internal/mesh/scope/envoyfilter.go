package scope

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// EnvoyFilters returns the ones of the class, in the order in which their patches are applied.
func (s *Scope) EnvoyFilters() []*model.EnvoyFilter {
	found := s.envoyFilters()
	s.asked(question{kind: whichEnvoyFilters}, answer{is: chained(found)})
	return found
}

func (s *Scope) envoyFilters() []*model.EnvoyFilter {
	if !s.snapshot.HasEnvoyFilters() {
		return nil
	}
	found := policiesOf(
		s, s.snapshot.EnvoyFiltersFor,
		func(f *model.EnvoyFilter) (*model.Selection, *model.Meta) { return &f.Selection, &f.Meta },
	)
	slices.SortFunc(found, func(a, b *model.EnvoyFilter) int {
		return model.CompareFilters(a, b, s.snapshot.Mesh.RootNamespace)
	})
	return found
}

// isCalledByFilter reports whether a patch of the class names a host. Gateways see it although no
// route leads there.
func (s *Scope) isCalledByFilter(host model.Host) bool {
	for f := range s.snapshot.EnvoyFiltersCalling(host) {
		if s.hasPolicy(f.Namespace, &f.Selection) {
			return true
		}
	}
	return false
}

// filtersThatCall returns the EnvoyFilters that may make hosts visible to the class.
func (s *Scope) filtersThatCall() []*model.EnvoyFilter {
	if !s.routesOnly() {
		return nil
	}
	return s.envoyFilters()
}

// ProxyMatches returns those of the snapshot's EnvoyFilters that match the class's proxies.
func (s *Scope) ProxyMatches() *model.List[model.ProxyMatch] {
	s.asked(question{kind: whichProxyMatches}, answer{is: s.class.ProxyMatches})
	return s.class.ProxyMatches
}

// Stating is what a proxy states of itself that patches match.
type Stating struct {
	// Version is that of Istio; empty for none.
	Version  string
	Metadata NodeMetadata // nil for a proxy without
}

// NodeMetadata are those of a proxy's node.
type NodeMetadata interface {
	// Text returns an entry that is a text; "" for any other.
	Text(key string) string
}

// proxyMatches returns those of the snapshot that match a proxy, sorted, each once.
func (c *Classifier) proxyMatches(snap *state.Snapshot, of Stating) *model.List[model.ProxyMatch] {
	if !snap.HasEnvoyFilters() {
		return nil
	}
	var found []model.ProxyMatch
	for f := range snap.EnvoyFiltersByProxy() {
		for _, m := range f.ProxyMatches() {
			if !slices.Contains(found, m) && matchesProxy(m, of) {
				found = append(found, m)
			}
		}
	}
	slices.SortFunc(found, func(a, b model.ProxyMatch) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Metadata.String(), b.Metadata.String()))
	})
	return c.matches.List(found)
}

// matchesProxy reports whether a patch is for a proxy. A pattern that cannot be read matches none.
func matchesProxy(m model.ProxyMatch, of Stating) bool {
	if m.Version != "" {
		pattern, err := regexp.Compile(m.Version)
		if err != nil || of.Version == "" || !pattern.MatchString(of.Version) {
			return false
		}
	}
	for key, value := range m.Metadata.Map() {
		if of.Metadata == nil || of.Metadata.Text(key) != value {
			return false
		}
	}
	return true
}

// addProxyMatches adds by what changed EnvoyFilters tell proxies apart, and did not before, or no
// more.
func (m *Moves) addProxyMatches() {
	for _, p := range m.delta.EnvoyFilters {
		var was, is []model.ProxyMatch
		if p.Old != nil {
			was = p.Old.ProxyMatches()
		}
		if p.New != nil {
			is = p.New.ProxyMatches()
		}
		for _, one := range slices.Concat(was, is) {
			if slices.Contains(was, one) != slices.Contains(is, one) {
				m.matches = append(m.matches, one)
			}
		}
	}
}
