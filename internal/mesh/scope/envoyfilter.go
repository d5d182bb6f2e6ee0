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

// HasEnvoyFilters reports whether any class of the mesh may have one.
func (s *Scope) HasEnvoyFilters() bool { return s.snapshot.HasEnvoyFilters() }

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

// maxPatterns is how many patterns a Classifier keeps. They are those of objects, which are few.
const maxPatterns = 1024

// proxyMatches returns those of the EnvoyFilters of a proxy's namespace and the root namespace that
// match the proxy, sorted, each once. Those of other namespaces have nothing for it.
func (c *Classifier) proxyMatches(snap *state.Snapshot, p Proxy) *model.List[model.ProxyMatch] {
	if !snap.HasEnvoyFilters() {
		return nil
	}
	var found []model.ProxyMatch
	for _, namespace := range []string{p.Namespace, snap.Mesh.RootNamespace} {
		for f := range snap.EnvoyFiltersByProxy(namespace) {
			for _, m := range f.ProxyMatches() {
				if !slices.Contains(found, m) && (proxyMatcher{m, c.pattern(m.Version)}).matches(p.Stating) {
					found = append(found, m)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b model.ProxyMatch) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Metadata.String(), b.Metadata.String()))
	})
	return c.matches.List(found)
}

// pattern returns a pattern of versions, compiled once.
func (c *Classifier) pattern(text string) *regexp.Regexp {
	pattern, known := c.patterns[text]
	if !known {
		if len(c.patterns) >= maxPatterns {
			clear(c.patterns)
		}
		pattern = compiled(text)
		c.patterns[text] = pattern
	}
	return pattern
}

// compiled returns a pattern; nil for one that cannot be read, and for none.
func compiled(text string) *regexp.Regexp {
	if text == "" {
		return nil
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return pattern
}

// proxyMatcher is a ProxyMatch with its pattern; nil for none, or one that cannot be read.
type proxyMatcher struct {
	model.ProxyMatch
	version *regexp.Regexp
}

// matches reports whether a patch is for a proxy. A pattern that cannot be read matches none.
func (m proxyMatcher) matches(of Stating) bool {
	if m.Version != "" && (m.version == nil || of.Version == "" || !m.version.MatchString(of.Version)) {
		return false
	}
	for key, value := range m.Metadata.Map() {
		if value == "" || of.Metadata == nil || of.Metadata.Text(key) != value {
			return false
		}
	}
	return true
}

// movingMatch is by what EnvoyFilters of a namespace tell proxies apart, and did not before, or no
// more.
type movingMatch struct {
	namespace string
	proxyMatcher
}

// addProxyMatches adds by what changed EnvoyFilters tell proxies apart. Of another root namespace
// than before it is what all do there.
func (m *Moves) addProxyMatches() {
	add := func(namespace string, of []model.ProxyMatch) {
		for _, one := range of {
			m.matches = append(m.matches, movingMatch{namespace, proxyMatcher{one, compiled(one.Version)}})
		}
	}
	for _, p := range m.delta.EnvoyFilters {
		var was, is []model.ProxyMatch
		if p.Old != nil {
			was = p.Old.ProxyMatches()
		}
		if p.New != nil {
			is = p.New.ProxyMatches()
		}
		add(p.Either().Namespace, slices.DeleteFunc(slices.Concat(was, is), func(one model.ProxyMatch) bool {
			return slices.Contains(was, one) == slices.Contains(is, one)
		}))
	}
	before, now := m.delta.From.Mesh.RootNamespace, m.delta.To.Mesh.RootNamespace
	if before == now {
		return
	}
	for _, namespace := range []string{before, now} {
		for f := range m.delta.To.EnvoyFiltersByProxy(namespace) {
			add(anyNamespace, f.ProxyMatches())
		}
	}
}

// anyNamespace stands for all namespaces.
const anyNamespace = ""

// movesByMatch reports whether EnvoyFilters tell a proxy from others otherwise than before.
func (m Moves) movesByMatch(p Proxy) bool {
	root := m.delta.To.Mesh.RootNamespace
	return slices.ContainsFunc(m.matches, func(one movingMatch) bool {
		isFor := one.namespace == p.Namespace || one.namespace == root || one.namespace == anyNamespace
		return isFor && one.matches(p.Stating)
	})
}
