package meshlife

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// drawRoutes draws what a VirtualService gives: sometimes routes for others that delegate to it, or
// such as delegate.
func drawRoutes(t *rapid.T, m model.Meta) model.Object {
	switch rapid.IntRange(0, 11).Draw(t, "delegates") {
	case 10:
		return drawDelegate(t, m)
	case 11:
		return drawRoot(t, m)
	}
	return drawVirtualService(t, m)
}

func drawDelegate(t *rapid.T, m model.Meta) *model.DelegateRoutes {
	d := &model.DelegateRoutes{Meta: m, ExportTo: one(t, "export", exports...)}
	for range rapid.IntRange(0, 2).Draw(t, "http") {
		r := drawHTTPRoute(t)
		r.Name = one(t, "route name", "", "", "own")
		d.HTTP, d.Given = append(d.HTTP, r), append(d.Given, drawGiven(t, r))
	}
	return d
}

func drawRoot(t *rapid.T, m model.Meta) *model.RootRoutes {
	root := &model.RootRoutes{VirtualService: *drawVirtualService(t, m)}
	for range rapid.IntRange(1, 2).Draw(t, "delegations") {
		r := drawHTTPRoute(t)
		*r = model.HTTPRoute{
			Name: one(t, "route name", "", "", "root"), Matches: r.Matches, Timeout: r.Timeout, Mirrors: r.Mirrors,
		}
		root.Delegations = append(root.Delegations, model.Delegation{
			Route: len(root.HTTP), Given: drawGiven(t, r),
			To: model.ObjectName{Namespace: one(t, "of", namespaces...), Name: one(t, "delegate", names...)},
		})
		root.HTTP = append(root.HTTP, r)
	}
	if rapid.Bool().Draw(t, "one after") {
		root.HTTP = append(root.HTTP, drawHTTPRoute(t))
	}
	return root
}

// drawGiven tells what the route itself does not say.
func drawGiven(t *rapid.T, r *model.HTTPRoute) model.Given {
	given := model.Given{
		Timeout: r.Timeout != 0, Retries: r.Retries != nil, Fault: r.Fault != nil, CORS: r.CORS != nil,
		Mirrors:         len(r.Mirrors) > 0,
		HeaderAuthority: one(t, "host by headers", "", "", "ext.example.com"),
	}
	given.Headers = given.HeaderAuthority != ""
	if given.Mirrors && rapid.Bool().Draw(t, "field mirror") {
		percent := r.Mirrors[0].Percent
		given.Mirror, given.Mirrors, given.MirrorPercent = true, false, &percent
	}
	return given
}

// routesOf is what other objects may contest of a VirtualService, nil of a delegate.
func routesOf(o model.Object) *model.VirtualService {
	switch o := o.(type) {
	case *model.VirtualService:
		return o
	case *model.RootRoutes:
		return &o.VirtualService
	}
	return nil
}

// soundDelegations reports whether each delegation is of a route without a destination, once.
func soundDelegations(r *model.RootRoutes) bool {
	for i, d := range r.Delegations {
		if d.Route >= len(r.HTTP) || i > 0 && d.Route <= r.Delegations[i-1].Route {
			return false
		}
	}
	for i, route := range r.HTTP {
		delegates := slices.ContainsFunc(r.Delegations, func(d model.Delegation) bool { return d.Route == i })
		if delegates && (route.Broken != "" || len(route.Destinations) > 0 || route.Redirect != nil) ||
			!delegates && route.Broken == "" && len(route.Destinations) == 0 && route.Redirect == nil &&
				route.Direct == nil {
			return false
		}
	}
	return len(r.Delegations) > 0 && !slices.ContainsFunc(r.Delegations, func(d model.Delegation) bool {
		return !hasGivenMirrors(r.HTTP[d.Route], &d.Given)
	})
}

func soundDelegate(d *model.DelegateRoutes) bool {
	if len(d.HTTP) != len(d.Given) {
		return false
	}
	for i, r := range d.HTTP {
		if r.Broken == "" && !hasGivenMirrors(r, &d.Given[i]) {
			return false
		}
	}
	return true
}

// hasGivenMirrors reports whether a route has the field mirror or the field mirrors as it is said
// to have.
func hasGivenMirrors(r *model.HTTPRoute, given *model.Given) bool {
	if len(r.Mirrors) == 0 {
		return !given.Mirror && !given.Mirrors
	}
	return given.Mirror != given.Mirrors
}
