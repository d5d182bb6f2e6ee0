package offline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Patched is a resource of some proxies that an EnvoyFilter changes or adds.
type Patched struct {
	Owner  source.Key
	Origin string
	Type   resource.Type
	With   *resource.Resource
	// Without is what the proxies would have without the object; nil if it adds the resource.
	Without *resource.Resource
	// clusters are the names of those that the mesh has.
	clusters map[string]bool
}

// Patched returns what each EnvoyFilter changes or adds, once for all proxies that have the same,
// by owner, type and name. It costs as much as the deletion of each of them.
func (c *Compiled) Patched() []Patched {
	clusters := c.naming(audience{}).clusters
	var list []Patched
	for _, owner := range slices.SortedFunc(maps.Keys(c.filters), source.Key.Compare) {
		if owner.Kind != kinds.EnvoyFilter {
			continue
		}
		_, without := c.writer.Fork().Apply([]state.Update{{Key: owner}})
		known := map[*resource.Resource]bool{}
		for _, e := range c.compiler.Foresee(without).Effects {
			for _, change := range e.Changes {
				if change.Before == nil || known[change.Before] {
					continue
				}
				known[change.Before] = true
				list = append(list, Patched{
					Owner: owner, Origin: c.origins[owner], Type: change.Type,
					With: change.Before, Without: change.After, clusters: clusters,
				})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Patched) int {
		return cmp.Or(a.Owner.Compare(b.Owner), cmp.Compare(a.Type, b.Type), cmp.Compare(a.With.Name(), b.With.Name()))
	})
	return list
}
