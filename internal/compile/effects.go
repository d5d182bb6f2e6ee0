package compile

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Foresight is what a delta would come to for connected proxies.
type Foresight struct {
	Effects []Effect // those of most proxies first
	Classes int      // with another state
	// Namespaces are how many proxies of each would get something.
	Namespaces map[string]int
	// Appeared and Fixed are the problems that classes see, as in a Step.
	Appeared, Fixed []source.Problem
}

// Effect is what a delta would change for proxies, of one class or of several.
type Effect struct {
	// Proxy is one of them, as namespace and name, and Proxies is how many they are.
	Namespace, Proxy string
	Proxies          int
	Changes          []Changed // by type and name
}

// Bytes is the size of what each of the proxies would be sent: new resources whole, and the names
// of those that would go. Types that a proxy has not asked for count too.
func (e *Effect) Bytes() (n int) {
	for _, c := range e.Changes {
		if c.After != nil {
			n += c.After.Size()
		} else {
			n += len(c.Before.Name())
		}
	}
	return n
}

// Drains reports whether a listener changes or goes, so that its connections are drained.
func (e *Effect) Drains() bool {
	return slices.ContainsFunc(e.Changes, func(c Changed) bool {
		return c.Type == resource.Listener && c.Before != nil
	})
}

// Changed is a resource that would be another one. Before is nil for a new one, After for one that
// would go.
type Changed struct {
	Type          resource.Type
	Before, After *resource.Resource
}

// Name returns the name of the resource.
func (c Changed) Name() string {
	if c.Before != nil {
		return c.Before.Name()
	}
	return c.After.Name()
}

// Foresee returns what a delta would change for connected proxies, and changes nothing, as Plan
// does. The delta must begin with what is compiled, or with what differs from it in nothing.
func (c *Compiler) Foresee(d *state.Delta) Foresight {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.plan(d)
	next := map[resource.ClassID]resource.State{}
	for _, to := range step.Changed {
		next[to.Class] = to.State
	}
	moved := map[*Member]resource.State{}
	for _, to := range step.Moved {
		moved[to.Member] = to.State
	}
	seen := Foresight{
		Classes: len(step.Changed), Namespaces: map[string]int{}, Appeared: step.Appeared, Fixed: step.Fixed,
	}
	by, alike := map[effectKey]*Effect{}, map[string]*Effect{}
	for m := range c.members.all() {
		to, moves := moved[m]
		if !moves {
			var changes bool
			if to, changes = next[m.variant.id]; !changes {
				continue
			}
		}
		key := effectKey{m.variant.state, to}
		if by[key] == nil {
			changes := Differences(m.variant.state, to)
			content := contentOf(changes)
			if alike[content] == nil {
				alike[content] = &Effect{Changes: changes}
			}
			by[key] = alike[content]
		}
		if len(by[key].Changes) > 0 {
			seen.Namespaces[m.known.Proxy.Namespace]++
		}
		by[key].add(m)
	}
	seen.Effects = sortedEffects(alike)
	return seen
}

// effectKey is what proxies have and would have.
type effectKey struct{ from, to resource.State }

// add counts a proxy. The first by name is the one that is named.
func (e *Effect) add(m *Member) {
	e.Proxies++
	p := &m.known.Proxy
	if e.Proxies == 1 || cmp.Or(cmp.Compare(p.Namespace, e.Namespace), cmp.Compare(p.Name, e.Proxy)) < 0 {
		e.Namespace, e.Proxy = p.Namespace, p.Name
	}
}

// Differences returns what differs between two states, by type and name.
func Differences(from, to resource.State) (list []Changed) {
	for typ := range resource.NumTypes {
		resource.Diff(from.Set(typ), to.Set(typ), func(before, after *resource.Resource) {
			list = append(list, Changed{typ, before, after})
		})
	}
	slices.SortFunc(list, func(a, b Changed) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name(), b.Name()))
	})
	return list
}

// contentOf tells changes apart, of whatever class.
func contentOf(changes []Changed) string {
	var text []byte
	for _, c := range changes {
		text = append(append(append(text, byte(c.Type)), c.Name()...), 0)
		for _, r := range []*resource.Resource{c.Before, c.After} {
			var version resource.Version
			if r != nil {
				version = r.Version()
			}
			text = append(text, version[:]...)
		}
	}
	return string(text)
}

func sortedEffects(alike map[string]*Effect) []Effect {
	var list []Effect
	for _, e := range alike {
		if len(e.Changes) > 0 {
			list = append(list, *e)
		}
	}
	slices.SortFunc(list, func(a, b Effect) int {
		return cmp.Or(
			cmp.Compare(b.Proxies, a.Proxies), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Proxy, b.Proxy),
		)
	})
	return list
}
