package state

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Compose returns the difference between before d and after next, which follows d. A nil d is
// empty.
func (d *Delta) Compose(next *Delta) *Delta {
	if d == nil {
		return next
	}
	both := &Delta{
		From: d.From, To: next.To,
		Endpoints: composeEndpoints(d.Endpoints, next.Endpoints),
		Accounts:  composeAccounts(d.Accounts, next.Accounts),
		Mesh:      !model.Equal(d.From.Mesh, next.To.Mesh),
		Changed:   slices.Clone(d.Changed), Observed: d.Observed,
	}
	moved := slices.Concat(d.AutoAddresses, next.AutoAddresses)
	both.AutoAddresses = changedAddresses(d.From, next.To, slices.Values(moved))
	for _, t := range tables {
		t.compose(both, d, next)
	}
	for _, k := range next.Changed {
		if !slices.Contains(both.Changed, k) {
			both.Changed = append(both.Changed, k)
		}
	}
	if both.Observed.IsZero() {
		both.Observed = next.Observed
	}
	return both
}

// composePairs returns one pair for each object, without objects that are back at what they were.
func composePairs[T any, P object[T]](first, second []Pair[T]) []Pair[T] {
	type name struct {
		key source.Key
		id  string
	}
	of := func(p Pair[T]) name {
		o := P(p.Either())
		return name{o.Key(), identity(o)}
	}
	both, at := slices.Clone(first), make(map[name]int, len(first))
	for i, p := range first {
		at[of(p)] = i
	}
	for _, p := range second {
		if i, known := at[of(p)]; known {
			both[i].New = p.New
		} else {
			both = append(both, p)
		}
	}
	return slices.DeleteFunc(both, func(p Pair[T]) bool {
		return p.Old == p.New || p.Old != nil && p.New != nil && model.Equal(p.Old, p.New)
	})
}

// composeEndpoints returns one change for each service, without endpoints that are back at what
// they were.
func composeEndpoints(first, second []EndpointChange) []EndpointChange {
	type name struct {
		host             model.Host
		namespace, entry string
	}
	both, at := slices.Clone(first), make(map[name]int, len(first))
	for i, c := range first {
		at[name{c.Host, c.Namespace, c.Entry}] = i
	}
	for _, c := range second {
		i, known := at[name{c.Host, c.Namespace, c.Entry}]
		if !known {
			both = append(both, c)
			continue
		}
		ids := slices.Concat(both[i].IDs, c.IDs)
		slices.Sort(ids)
		from, to := both[i].From, c.To
		both[i].To, both[i].IDs = to, slices.DeleteFunc(slices.Compact(ids), func(id EndpointID) bool {
			was, old := from.Get(id)
			is, now := to.Get(id)
			return old == now && was == is
		})
	}
	return slices.DeleteFunc(both, func(c EndpointChange) bool { return len(c.IDs) == 0 })
}
