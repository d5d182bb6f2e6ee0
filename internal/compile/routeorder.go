package compile

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// gatewayRoutes returns the routes of a gateway's virtual host: those of VirtualServices in the
// total order, and where the first of them comes those of all Ingresses together, and of all routes
// of the Gateway API together. These two have a precedence of their own, whoever has them.
func gatewayRoutes(s *scope.Scope, owners []bound) []route.RouteRef {
	var refs []route.RouteRef
	var paths []ingressRoute
	var attached []attachedRoute
	pathsAt, attachedAt := 0, 0
	for _, o := range owners {
		found := routesOf(s, o.vs, o.at)
		switch o.vs.Kind {
		case kinds.Ingress:
			if len(paths) == 0 {
				pathsAt = len(refs)
			}
			for _, ref := range found {
				paths = append(paths, ingressRoute{host: o.vs.Hosts[0], RouteRef: ref})
			}
		case kinds.HTTPRoute, kinds.GRPCRoute:
			if len(attached) == 0 {
				attachedAt = len(refs)
			}
			for _, ref := range found {
				attached = append(attached, attachedRoute{of: &o.vs.Meta, RouteRef: ref})
			}
		default:
			refs = append(refs, found...)
		}
	}
	inOrder := sortedRoutes(attached)
	if attachedAt < pathsAt { // what stands behind is put in first
		return slices.Insert(slices.Insert(refs, pathsAt, sortedPaths(paths)...), attachedAt, inOrder...)
	}
	return slices.Insert(slices.Insert(refs, attachedAt, inOrder...), pathsAt, sortedPaths(paths)...)
}

// meshRoutes returns the routes of calls at a port. Those of the Gateway API have a precedence of
// their own; the state has merged the routes of one host in the order of their age.
func meshRoutes(s *scope.Scope, vs *model.VirtualService, port uint16) []route.RouteRef {
	refs := routesOf(s, vs, inMesh(port))
	if !model.IsAttachedRoute(vs.Kind) {
		return refs
	}
	attached := make([]attachedRoute, len(refs))
	for i, ref := range refs {
		attached[i] = attachedRoute{of: &vs.Meta, RouteRef: ref}
	}
	return sortedRoutes(attached)
}

func sortedPaths(paths []ingressRoute) []route.RouteRef {
	slices.SortStableFunc(paths, ingressRoute.compare)
	var sorted []route.RouteRef
	for _, p := range paths {
		sorted = append(sorted, p.RouteRef)
		if p.rank() >= rootPath { // it takes all requests of its host
			break
		}
	}
	return sorted
}

func sortedRoutes(attached []attachedRoute) []route.RouteRef {
	slices.SortStableFunc(attached, attachedRoute.compare)
	var sorted []route.RouteRef
	for _, r := range attached {
		sorted = append(sorted, r.RouteRef)
	}
	return sorted
}

// attachedRoute is one match of a route of the Gateway API.
type attachedRoute struct {
	of *model.Meta
	route.RouteRef
}

// compare is the precedence that the Gateway API specifies: exact paths, then the longer path, a
// method, more headers, more query parameters, the older route, its name; matches of one route stay
// in their order. Where expressions come it leaves open: they come after exact paths.
func (r attachedRoute) compare(o attachedRoute) int {
	path, other := r.path(), o.path()
	return cmp.Or(
		cmp.Compare(pathRank(path), pathRank(other)),
		cmp.Compare(len(other.Value), len(path.Value)),
		-compareBools(r.Match.Method != nil, o.Match.Method != nil),
		cmp.Compare(len(o.Match.Headers), len(r.Match.Headers)),
		cmp.Compare(len(o.Match.Query), len(r.Match.Query)),
		cmp.Compare(r.of.Created, o.of.Created),
		cmp.Compare(r.of.Namespace, o.of.Namespace),
		cmp.Compare(r.of.Owner, o.of.Owner),
	)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// path returns the condition on the path, which is a prefix of no elements if there is none.
func (r attachedRoute) path() model.StringMatch {
	if r.Match.URI == nil {
		return model.StringMatch{Kind: model.PathPrefix}
	}
	return *r.Match.URI
}

func pathRank(m model.StringMatch) int {
	switch m.Kind {
	case model.Exact:
		return 0
	case model.Regex:
		return 1
	}
	return 2
}
