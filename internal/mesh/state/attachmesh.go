package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A route may have a Service as its parent: then sidecars route their calls of the Service by it.
// Routes of the Service's own namespace are for all callers (producer routes), others for callers
// in the route's namespace (consumer routes), where they come before those of the producer. All
// routes that are for the same callers are one VirtualService, because a caller has one for a host.

// Routes of the Gateway API come before VirtualServices of Istio's API, which are older than
// nothing: consumer routes first.
const (
	consumerAge int64 = math.MinInt64 + iota
	producerAge
)

// serviceKey is under which the attachments keep the routes of calls to a host.
func serviceKey(host model.Host) source.Key {
	return source.Key{Kind: kinds.Service, Name: string(host)}
}

// hostSet are hosts of Services whose routes are made anew.
type hostSet map[model.Host]bool

func (s hostSet) addParents(r *model.AttachedRoute) {
	if r == nil {
		return
	}
	for i := range r.Parents {
		if host := r.Parents[i].Host; host != "" {
			s[host] = true
		}
	}
}

// resolveServices makes the routes of calls to Services anew: those that the routes of a batch
// name, or named.
func (a *attachments) resolveServices(b *batch, routes objectSet) {
	hosts := hostSet{}
	for _, p := range b.attach.routes {
		hosts.addParents(p.Old)
	}
	for k := range routes {
		hosts.addParents(b.next.attachedRoute(k))
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		a.put(b, serviceKey(host), a.callRoutes(b.next, host))
	}
}

// callRoutes returns the routes of calls to a host, as a VirtualService for each group of callers.
func (a *attachments) callRoutes(s *Snapshot, host model.Host) []model.Object {
	svc := s.kubernetesService(host)
	if svc == nil {
		return nil
	}
	groups := map[string][]*model.AttachedRoute{}
	for r := range s.attachedRoutes.by[attachedRoutesByService].under(join(string(host))) {
		groups[r.Namespace] = append(groups[r.Namespace], r)
	}
	var out []model.Object
	for namespace, routes := range groups {
		v := &model.VirtualService{
			Meta: routes[0].Meta, Hosts: []model.Host{host}, Gateways: []string{model.Mesh},
			ExportTo: model.Exports{Own: true},
		}
		v.Owner, v.Name = routes[0].Name, fmt.Sprintf("%s~%s~%s", svc.Name, svc.Namespace, namespace)
		v.Created = consumerAge
		if namespace == svc.Namespace {
			v.ExportTo, v.Created = model.Exports{All: true}, producerAge
		}
		for _, r := range routes {
			a.addCallRules(v, r, portsOf(r, svc))
		}
		if len(v.HTTP)+len(v.TCP)+len(v.TLS) > 0 {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(x, y model.Object) int {
		return cmp.Compare(x.(*model.VirtualService).Namespace, y.(*model.VirtualService).Namespace)
	})
	return out
}

// portsOf returns the ports of a Service for which a route names it as its parent, 0 for all.
func portsOf(r *model.AttachedRoute, svc *model.Service) []uint16 {
	var ports []uint16
	for i := range r.Parents {
		if p := &r.Parents[i]; p.Host == svc.Host && parentAccepts(svc, p).Status {
			ports = append(ports, p.Port)
		}
	}
	if slices.Contains(ports, 0) {
		return []uint16{0}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// addCallRules adds the rules of a route, each of them for the ports.
func (a *attachments) addCallRules(v *model.VirtualService, r *model.AttachedRoute, ports []uint16) {
	if len(ports) == 0 {
		return
	}
	for _, rule := range r.HTTP {
		at := *rule
		at.Matches = nil
		for _, m := range rule.Matches {
			for _, port := range ports {
				limited := *m
				limited.Port = port
				at.Matches = append(at.Matches, a.matches.Canonical(&limited))
			}
		}
		v.HTTP = append(v.HTTP, a.routes.Canonical(&at))
	}
	if r.Kind == kinds.TLSRoute {
		a.addCallsByServerName(v, r, ports)
		return
	}
	for _, rule := range r.TCP {
		at := *rule
		for _, port := range ports {
			at.Matches = append(at.Matches, a.l4Matches.Canonical(&model.L4Match{Port: port}))
		}
		v.TCP = append(v.TCP, a.tcp.Canonical(&at))
	}
}

// addCallsByServerName adds the rules of a TLSRoute: for connections that ask for one of its hosts,
// or without any for the Service itself.
func (a *attachments) addCallsByServerName(v *model.VirtualService, r *model.AttachedRoute, ports []uint16) {
	hosts := r.Hosts
	if len(hosts) == 0 {
		hosts = v.Hosts
	}
	for _, rule := range r.TCP {
		at := model.TLSRoute{Destinations: rule.Destinations, Broken: rule.Broken}
		for _, port := range ports {
			at.Matches = append(at.Matches, a.l4Matches.Canonical(&model.L4Match{Port: port, SNIHosts: hosts}))
		}
		v.TLS = append(v.TLS, a.tlsRoutes.Canonical(&at))
	}
}

// kubernetesService returns the Service of Kubernetes that has a host, nil if there is none.
func (s *Snapshot) kubernetesService(host model.Host) *model.Service {
	for svc := range s.Claims(host) { // it comes first
		if svc.Kind == kinds.Service {
			return svc
		}
		break
	}
	return nil
}

// parentAccepts says whether a Service is there as the parent of a route.
func parentAccepts(svc *model.Service, p *model.ParentRef) model.Condition {
	if svc == nil {
		return model.Condition{Reason: noMatchingParent, Message: fmt.Sprintf("there is no Service %s", p.Name)}
	}
	if _, has := svc.Port(p.Port); p.Port != 0 && !has {
		return model.Condition{
			Reason: noMatchingParent, Message: fmt.Sprintf("the Service %s has no port %d", p.Name, p.Port),
		}
	}
	return model.Condition{Status: true}
}

// serviceStatus returns the status of a route at a Service. What it leads to needs no grant: those
// who call may call that anyway.
func (s *Snapshot) serviceStatus(r *model.AttachedRoute, ref *model.ParentRef) model.ParentStatus {
	p := model.ParentStatus{
		Ref: *ref, Accepted: r.Accepted, ResolvedRefs: s.backendRefs(r), PartiallyInvalid: r.PartiallyInvalid,
	}
	if c := parentAccepts(s.kubernetesService(ref.Host), ref); p.Accepted.Status && !c.Status {
		p.Accepted = c
	}
	return p
}

func (s *Snapshot) attachedRoute(k source.Key) *model.AttachedRoute {
	r, _ := s.attachedRoutes.by[attachedRoutesByName].get(join(k.Namespace, string(k.Kind), k.Name))
	return r
}
