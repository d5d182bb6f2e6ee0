package state

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// withDelegations has what roots and delegates come to in their place.
func (d naiveSnapshot) withDelegations() naiveSnapshot {
	out := naiveSnapshot{}
	for _, o := range d.objects {
		switch o := o.(type) {
		case *model.RootRoutes:
			v, status := d.join(o)
			out.objects = append(out.objects, v, status)
		case *model.DelegateRoutes:
			names := func(r *model.RootRoutes) bool {
				return slices.ContainsFunc(r.Delegations, func(at model.Delegation) bool {
					return at.To.Namespace == o.Namespace && at.To.Name == o.Name
				})
			}
			if len(of(d, names)) == 0 {
				out.objects = append(out.objects, &model.DelegationStatus{Meta: o.Meta, Unused: true})
			}
		default:
			out.objects = append(out.objects, o)
		}
	}
	return out
}

func (d naiveSnapshot) join(root *model.RootRoutes) (*model.VirtualService, *model.DelegationStatus) {
	j := &joined{
		delegations: &delegations{newAttachments().canonical}, root: root,
		status: &model.DelegationStatus{Meta: root.Meta},
	}
	for i, route := range root.HTTP {
		at := slices.IndexFunc(root.Delegations, func(at model.Delegation) bool { return at.Route == i })
		if at < 0 {
			j.add(route, model.RouteOrigin{Route: i})
			continue
		}
		to := &root.Delegations[at]
		delegate, mistake := d.delegateOf(root, to.To)
		if mistake.Message != "" {
			mistake.To, mistake.Closed = to.To, true
			j.close(to, mistake)
			continue
		}
		for i := range delegate.HTTP {
			j.addRoute(to, delegate, i)
		}
	}
	v := root.VirtualService
	v.HTTP = j.http
	return &v, j.status
}

func (d naiveSnapshot) delegateOf(root *model.RootRoutes, to model.ObjectName) (
	*model.DelegateRoutes, model.DelegationMistake,
) {
	is := func(m *model.Meta) bool { return m.Namespace == to.Namespace && m.Name == to.Name }
	found := of(d, func(o *model.DelegateRoutes) bool { return is(&o.Meta) })
	hosts := len(of(d, func(o *model.RootRoutes) bool { return is(&o.Meta) })) +
		len(of(d, func(o *model.VirtualService) bool { return o.Owner == "" && is(&o.Meta) }))
	const want = "the namespace and the name of a VirtualService without hosts, with HTTP routes"
	switch {
	case is(&root.Meta):
		return nil, model.DelegationMistake{Message: "is the VirtualService itself", Want: want}
	case len(found) == 0 && hosts > 0:
		return nil, model.DelegationMistake{Message: "has hosts of its own, so it is no delegate", Want: want}
	case len(found) == 0:
		return nil, model.DelegationMistake{Message: "there is no such VirtualService", Want: want}
	case !found[0].ExportTo.Visible(to.Namespace, root.Namespace):
		return nil, model.DelegationMistake{
			Message: "is not exported to namespace " + root.Namespace,
			Want:    `exportTo of it with "` + root.Namespace + `"`,
		}
	case len(found[0].HTTP) == 0:
		return nil, model.DelegationMistake{Message: "has no HTTP routes", Want: want}
	}
	return found[0], model.DelegationMistake{}
}
