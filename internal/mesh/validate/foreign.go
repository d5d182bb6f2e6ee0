package validate

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkForeignHosts reports VirtualServices that take calls of other namespaces to a host which
// belongs to another one. DestinationRules need no such check: those of a third namespace are not
// in force. The cost follows the delta, unless the mesh configuration changes, as who has the root
// namespace may do what he likes.
func (c *Checker) checkForeignHosts(snap *state.Snapshot, d *state.Delta) {
	for _, p := range d.Services {
		c.checkForeignRoutes(snap, p.Either().Host)
	}
	for _, p := range d.VirtualServices {
		if p.Old != nil {
			for _, h := range p.Old.Hosts {
				if p.New == nil || !slices.Contains(p.New.Hosts, h) {
					c.store.setRelation(relation{p.Old.Key(), ownerOf(h)}, nil)
				}
			}
		}
		if p.New != nil {
			for _, h := range p.New.Hosts {
				c.store.setRelation(relation{p.New.Key(), ownerOf(h)}, foreignRoutes(snap, p.New, h))
			}
		}
	}
	if d.Mesh {
		for v := range snap.VirtualServices() {
			for _, h := range v.Hosts {
				c.store.setRelation(relation{v.Key(), ownerOf(h)}, foreignRoutes(snap, v, h))
			}
		}
	}
}

// ownerOf is the aspect of whose a host is.
func ownerOf(h model.Host) string { return "owner of " + string(h) }

func (c *Checker) checkForeignRoutes(snap *state.Snapshot, h model.Host) {
	for v := range snap.VirtualServicesOf(h) {
		c.store.setRelation(relation{v.Key(), ownerOf(h)}, foreignRoutes(snap, v, h))
	}
}

func foreignRoutes(snap *state.Snapshot, v *model.VirtualService, h model.Host) []source.Problem {
	if v.Namespace == snap.Mesh.RootNamespace || !slices.Contains(v.Gateways, model.Mesh) || isPrivate(v) {
		return nil
	}
	var is, better string
	switch owner := winner(snap.Claims(h)); {
	case owner != nil && owner.Namespace == v.Namespace:
		return nil
	case owner != nil:
		is, better = "is a host of "+owner.Key().String(), "routes in namespace "+owner.Namespace
	case coversOthers(v.Namespace, h, snap.Mesh.Domain):
		is, better = "covers the hosts of Services of other namespaces", "the hosts that they are for"
	case snap.Mesh.OwnHostsOnly:
		is, better = "is the host of no Service or ServiceEntry", "a ServiceEntry of this host in its namespace"
	default:
		return nil
	}
	effect := "calls of all namespaces that it is exported to go by these routes"
	if snap.Mesh.OwnHostsOnly {
		effect = "these routes are in force for callers of namespace " + v.Namespace + " alone"
	}
	return []source.Problem{{
		Severity: source.Warning,
		Path:     "spec.hosts",
		Value:    string(h),
		Message:  is + "; " + effect,
		Want:     `exportTo ["."] for callers of its own namespace, or ` + better,
	}}
}

// coversOthers reports whether a pattern covers names of Services of other namespaces than one.
func coversOthers(namespace string, h model.Host, domain string) bool {
	services := model.Host("*.svc." + domain)
	own := model.Host("*." + namespace + ".svc." + domain)
	return h.IsWildcard() && h.Overlaps(services) && !own.Covers(h)
}

// isPrivate reports whether no other namespace has the routes of a VirtualService.
func isPrivate(v *model.VirtualService) bool {
	elsewhere := func(namespace string) bool { return namespace != v.Namespace }
	return !v.ExportTo.All && !slices.ContainsFunc(v.ExportTo.Namespaces, elsewhere)
}
