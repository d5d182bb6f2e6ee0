package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A route of a VirtualService may delegate: the routes of another one, which has no hosts, stand in
// its place. A batch joins anew the roots that it changed, and those that name what it changed. A
// root comes to a VirtualService under its own name, as all others, and a status. Nobody after this
// knows of delegates.
//
//	RootRoutes ─────┬─► joinRoot ─► VirtualService, DelegationStatus of the root
//	DelegateRoutes ─┴─► isUnused ─► DelegationStatus of a delegate that no root names

// changedDelegations are the names of VirtualServices that a batch concerns.
type changedDelegations struct {
	roots   objectNames // joined anew
	changed objectNames // may mean something else to roots that name them
	named   objectNames // by a root that changed, before or after
}

func (c *changedDelegations) isEmpty() bool { return len(c.roots)+len(c.changed)+len(c.named) == 0 }

// objectNames is a set of names.
type objectNames map[model.ObjectName]bool

func (n *objectNames) add(name model.ObjectName) {
	if *n == nil {
		*n = objectNames{}
	}
	(*n)[name] = true
}

func (n objectNames) sorted() []model.ObjectName {
	return slices.SortedFunc(maps.Keys(n), func(a, o model.ObjectName) int {
		return cmp.Or(cmp.Compare(a.Namespace, o.Namespace), cmp.Compare(a.Name, o.Name))
	})
}

func nameOf(m *model.Meta) model.ObjectName {
	return model.ObjectName{Namespace: m.Namespace, Name: m.Name}
}

// delegations joins roots with their delegates, for the Writer.
type delegations struct{ canonical }

// swapDelegation is swap for what a VirtualService gives: a root, a delegate or the VirtualService
// itself. It returns false for all other objects, and where neither is a root or a delegate.
func (b *batch) swapDelegation(old, now model.Object) bool {
	wasRoot, _ := old.(*model.RootRoutes)
	isRoot, _ := now.(*model.RootRoutes)
	wasDelegate, _ := old.(*model.DelegateRoutes)
	isDelegate, _ := now.(*model.DelegateRoutes)
	was, _ := old.(*model.VirtualService)
	is, _ := now.(*model.VirtualService)
	if wasRoot == nil && isRoot == nil && wasDelegate == nil && isDelegate == nil {
		b.noteNamed(was, is)
		return false
	}
	b.swapTables(wasRoot, isRoot)
	b.swapTables(wasDelegate, isDelegate)
	if wasRoot != nil {
		was = b.next.VirtualService(wasRoot.Namespace, wasRoot.Name) // what it came to
	}
	isEqual := was == is || was != nil && is != nil && model.Equal(was, is)
	if isRoot == nil && !isEqual { // else step puts what the root comes to in its place
		b.swapTables(was, is)
	}
	return true
}

// noteNamed notes a VirtualService with hosts that comes or goes: a root that names it says why it
// is no delegate.
func (b *batch) noteNamed(old, now *model.VirtualService) {
	if (old == nil) == (now == nil) || b.next.rootRoutes.by[rootRoutesByDelegate].len() == 0 {
		return
	}
	if v := cmp.Or(old, now); v.Kind == kinds.VirtualService {
		b.delegation.changed.add(nameOf(&v.Meta))
	}
}

func swapRoot(b *batch, old, now *model.RootRoutes) *model.RootRoutes {
	for _, r := range []*model.RootRoutes{old, now} {
		if r == nil {
			continue
		}
		b.delegation.roots.add(nameOf(&r.Meta))
		b.delegation.changed.add(nameOf(&r.Meta))
		for _, d := range r.Delegations {
			b.delegation.named.add(d.To)
		}
	}
	return now
}

func swapDelegate(b *batch, old, now *model.DelegateRoutes) *model.DelegateRoutes {
	b.delegation.changed.add(nameOf(&cmp.Or(old, now).Meta))
	return now
}

// delegatesOf returns the names of the delegates of a root, each once.
func delegatesOf(r *model.RootRoutes) []model.ObjectName {
	names := objectNames{}
	for _, d := range r.Delegations {
		names[d.To] = true
	}
	return names.sorted()
}

func rootDelegateKeys(keys [][]byte, r *model.RootRoutes) [][]byte {
	for _, name := range delegatesOf(r) {
		keys = append(keys, join(name.Namespace, name.Name, r.Namespace, r.Name))
	}
	return keys
}

// step joins what the batch concerns. It costs nothing in a mesh without delegation.
func (d *delegations) step(b *batch) {
	c := &b.delegation
	if c.isEmpty() {
		return
	}
	for name := range c.changed {
		for r := range b.next.rootRoutes.by[rootRoutesByDelegate].under(join(name.Namespace, name.Name)) {
			c.roots.add(nameOf(&r.Meta))
		}
		c.named.add(name)
	}
	for _, name := range c.roots.sorted() {
		root := b.next.root(name)
		if root == nil {
			continue
		}
		v, status := d.joinRoot(b.next, root)
		if was := b.next.VirtualService(name.Namespace, name.Name); was == nil || !model.Equal(was, v) {
			b.swapTables(was, v)
		}
		b.putDelegationStatus(name, status)
	}
	for _, name := range c.named.sorted() {
		if b.next.root(name) == nil {
			b.putDelegationStatus(name, b.next.unusedDelegate(name))
		}
	}
}

// putDelegationStatus puts the status of a VirtualService into the snapshot; nil is none.
func (b *batch) putDelegationStatus(name model.ObjectName, now *model.DelegationStatus) {
	was := b.next.Delegation(name.Namespace, name.Name)
	if was == nil && now == nil || was != nil && now != nil && model.Equal(was, now) {
		return
	}
	b.swapTables(was, now)
}

// unusedDelegate returns the status of a delegate that no root names, nil for anything else.
func (s *Snapshot) unusedDelegate(name model.ObjectName) *model.DelegationStatus {
	d := s.delegate(name)
	_, used := s.rootRoutes.by[rootRoutesByDelegate].first(join(name.Namespace, name.Name))
	if d == nil || used {
		return nil
	}
	return &model.DelegationStatus{Meta: d.Meta, Unused: true}
}

func (s *Snapshot) root(name model.ObjectName) *model.RootRoutes {
	r, _ := s.rootRoutes.by[rootRoutesByName].get(join(name.Namespace, name.Name))
	return r
}

func (s *Snapshot) delegate(name model.ObjectName) *model.DelegateRoutes {
	d, _ := s.delegateRoutes.by[delegateRoutesByName].get(join(name.Namespace, name.Name))
	return d
}

// delegateFor returns the delegate that a root names. If it is none for the root, the mistake says
// why.
func (s *Snapshot) delegateFor(root *model.RootRoutes, to model.ObjectName) (
	*model.DelegateRoutes, model.DelegationMistake,
) {
	d := s.delegate(to)
	mistake := model.DelegationMistake{To: to, Closed: true}
	switch {
	case to == nameOf(&root.Meta):
		mistake.Message = "is the VirtualService itself"
	case d == nil && (s.root(to) != nil || s.VirtualService(to.Namespace, to.Name) != nil):
		mistake.Message = "has hosts of its own, so it is no delegate"
	case d == nil:
		mistake.Message = "there is no such VirtualService"
	case !d.ExportTo.Visible(d.Namespace, root.Namespace):
		mistake.Message = "is not exported to namespace " + root.Namespace
		mistake.Want = fmt.Sprintf("exportTo of it with %q", root.Namespace)
		return nil, mistake
	case len(d.HTTP) == 0:
		mistake.Message = "has no HTTP routes"
	default:
		return d, model.DelegationMistake{}
	}
	mistake.Want = "the namespace and the name of a VirtualService without hosts, with HTTP routes"
	return nil, mistake
}
