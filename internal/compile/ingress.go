package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// Several Ingresses may have paths of one host. With TLS the host's name belongs to the server of
// one of them, the first that lists it, so the paths of all of them are routes of that server. They
// are tried in the order of Kubernetes, whichever Ingress has them.

// binds reports whether the server takes the routes of a VirtualService.
func (sv server) binds(vs *model.VirtualService) bool {
	return slices.Contains(vs.Gateways, sv.name()) ||
		sv.TLS != nil && sv.gateway.Kind == kinds.Ingress && vs.Kind == kinds.Ingress
}

// eachGatewayOf calls f with the Gateways of the class whose servers may take the routes of a
// VirtualService, some of them twice.
func eachGatewayOf(s *scope.Scope, vs *model.VirtualService, f func(*model.Gateway)) {
	for _, name := range vs.Gateways {
		if g := s.Gateway(name); g != nil && s.Applies(g) {
			f(g)
		}
	}
	if vs.Kind != kinds.Ingress {
		return
	}
	for g := range s.Gateways() {
		if g.Kind == kinds.Ingress {
			f(g)
		}
	}
}

// ingressRoute is one path of an Ingress, or its default backend, which has no match.
type ingressRoute struct {
	host model.Host
	route.RouteRef
}

// compare is the order of precedence in Kubernetes: the more specific host, exact paths, longer
// prefixes, default backends. The older Ingress comes first where that says nothing.
func (r ingressRoute) compare(o ingressRoute) int {
	return cmp.Or(
		cmp.Compare(hostRank(r.host), hostRank(o.host)),
		cmp.Compare(r.rank(), o.rank()),
		cmp.Compare(len(o.path()), len(r.path())),
	)
}

// hostRank is lower for more specific hosts.
func hostRank(h model.Host) int {
	if !h.IsWildcard() {
		return 0
	}
	const most = 1 << 16
	return most - len(h)
}

// The ranks of paths. A prefix of whole elements has two matches: the path itself, and what is
// below it.
const (
	exactPath = iota
	prefixPath
	rootPath
	noPath
)

func (r ingressRoute) rank() int {
	switch {
	case r.Match == nil || r.Match.URI == nil:
		return noPath
	case r.Match.URI.Kind == model.Exact && len(r.Route.Matches) == 1:
		return exactPath
	case r.path() == "":
		return rootPath
	}
	return prefixPath
}

func (r ingressRoute) path() string {
	if r.Match == nil || r.Match.URI == nil {
		return ""
	}
	return strings.TrimSuffix(r.Match.URI.Value, "/")
}
