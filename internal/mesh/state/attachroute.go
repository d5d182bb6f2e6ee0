package state

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// resolveRoute puts what a route comes to into the snapshot, and counts it at its listeners.
// Gateways and ListenerSets where a count changes are added to those whose status is made anew, and
// hosts that they begin or cease to lead to are added to the backends.
func (a *attachments) resolveRoute(b *batch, k source.Key, c concern) {
	var objects []model.Object
	var status *model.GatewayAPIStatus
	r := b.next.attachedRoute(k)
	if r != nil {
		status = b.next.routeStatus(r)
		objects = a.virtualServices(b.next, r, status)
	}
	a.count(k, status, c)
	a.countLeads(k, leadsOf(r, status), c.backends)
	a.put(b, k, objects)
	a.putStatus(b, k, status)
}

// count counts a route at the listeners that it attaches to now, and no more at those where it did.
func (a *attachments) count(k source.Key, now *model.GatewayAPIStatus, c concern) {
	var before *model.GatewayAPIStatus
	for _, o := range a.status(k) {
		before = o.(*model.GatewayAPIStatus)
	}
	was, is := listenersOf(before), listenersOf(now)
	add := func(listener string, n int32) {
		if routes := a.attached.Get(listener) + n; routes == 0 {
			a.attached.Drop(listener)
		} else {
			a.attached.Put(listener, routes)
		}
		if owner := ownerOf(listener); owner.Kind == kinds.ListenerSet {
			c.sets[owner] = true
		} else {
			c.gateways[owner] = true
		}
	}
	recount(was, is, add)
}

// recount takes what was counted and is not any more away, and adds what is counted from now on.
func recount[T comparable](was, is []T, add func(T, int32)) {
	for _, one := range was {
		if !slices.Contains(is, one) {
			add(one, -1)
		}
	}
	for _, one := range is {
		if !slices.Contains(was, one) {
			add(one, 1)
		}
	}
}

// listenersOf returns the listeners that a route attaches to, each once.
func listenersOf(status *model.GatewayAPIStatus) []string {
	if status == nil {
		return nil
	}
	var all []string
	for _, p := range status.Parents {
		all = append(all, p.Listeners...)
	}
	return model.SortedDistinct(all)
}

// routeStatus returns the status of a route at those of its parents that are Lateen's; nil without
// any.
func (s *Snapshot) routeStatus(r *model.AttachedRoute) *model.GatewayAPIStatus {
	out := &model.GatewayAPIStatus{Meta: r.Meta}
	refs := s.routeRefs(r)
	for i := range r.Parents {
		ref := &r.Parents[i]
		if ref.Host != "" {
			out.Parents = append(out.Parents, s.serviceStatus(r, ref))
		}
		g := s.gatewayOf(r, ref)
		if g == nil {
			continue
		}
		p := model.ParentStatus{
			Ref: *ref, Accepted: r.Accepted, ResolvedRefs: refs, PartiallyInvalid: r.PartiallyInvalid,
		}
		listeners, refused := s.listenersFor(g, r, ref)
		if p.Accepted.Status && len(listeners) == 0 {
			p.Accepted = refused
		}
		for _, l := range listeners {
			p.Listeners = append(p.Listeners, g.Namespace+"/"+listenerName(g, l))
		}
		out.Parents = append(out.Parents, p)
	}
	if len(out.Parents) == 0 {
		return nil
	}
	return out
}

// gatewayOf returns the Gateway that a parent of a route names, or that has the ListenerSet which
// the parent names; nil if it is not Lateen's.
func (s *Snapshot) gatewayOf(r *model.AttachedRoute, ref *model.ParentRef) *model.KubernetesGateway {
	namespace, name := ref.NamespaceIn(r.Namespace), ref.Name
	if ref.IsListenerSet() {
		set := s.listenerSet(namespace, name)
		if set == nil {
			return nil
		}
		namespace, name = set.Parent.Namespace, set.Parent.Name
	} else if !ref.IsGateway() {
		return nil
	}
	return s.servedGateway(gatewayKey(namespace, name))
}

// noMatchingParent is a reason of the specification.
const noMatchingParent = "NoMatchingParent"

// listenersFor returns the listeners of a Gateway that a route attaches to by one of its parents,
// or why there is none.
func (s *Snapshot) listenersFor(
	g *model.KubernetesGateway, r *model.AttachedRoute, ref *model.ParentRef,
) (found []*model.Listener, refused model.Condition) {
	refused = model.Condition{
		Reason: noMatchingParent, Message: "no listener has this name and port, and is in force",
	}
	var labels model.Labels // read when a listener wants them
	takes := func(l *model.Listener) bool {
		if l.From.ByLabels() && labels.IsEmpty() {
			labels = s.namespaceLabels(r.Namespace)
		}
		return slices.Contains(l.Kinds, r.Kind) && l.From.Selects(namespaceOf(g, l), r.Namespace, labels)
	}
	var of model.ObjectName // a parent has its own listeners alone
	if ref.IsListenerSet() {
		of = model.ObjectName{Namespace: ref.NamespaceIn(r.Namespace), Name: ref.Name}
	}
	for i := range g.Listeners {
		l := &g.Listeners[i]
		switch {
		case l.Set != of, ref.Section != "" && ref.Section != l.Name, ref.Port != 0 && ref.Port != l.Port, !l.IsOpen():
		case !takes(l):
			if refused.Reason != "NoMatchingListenerHostname" {
				refused = model.Condition{Reason: "NotAllowedByListeners", Message: fmt.Sprintf(
					"listener %s takes no %s of namespace %s", l.Name, r.Kind, r.Namespace,
				)}
			}
		case r.Closed || len(commonHosts(g, l, r.Hosts)) == 0:
			refused = model.Condition{Reason: "NoMatchingListenerHostname", Message: fmt.Sprintf(
				"listener %s has no host in common with the route", l.Name,
			)}
		default:
			found = append(found, l)
		}
	}
	return found, refused
}

// commonHosts returns the hosts that a listener and a route have in common, without those that
// belong to a more specific listener of the port: a request is for one listener alone.
func commonHosts(g *model.KubernetesGateway, l *model.Listener, hosts []model.Host) []model.Host {
	if len(hosts) == 0 {
		return []model.Host{l.Host}
	}
	var common []model.Host
	for _, h := range hosts {
		if h.Covers(l.Host) {
			h = l.Host
		} else if !l.Host.Covers(h) {
			continue
		}
		if !slices.Contains(common, h) && !isolated(g, l, h) {
			common = append(common, h)
		}
	}
	return common
}

// isolated reports whether a host of a listener belongs to a more specific one of the same port.
func isolated(g *model.KubernetesGateway, l *model.Listener, h model.Host) bool {
	for i := range g.Listeners { // there may be thousands, which are not copied
		o := &g.Listeners[i]
		if o.Port == l.Port && o.Host != l.Host && o.IsOpen() && l.Host.Covers(o.Host) && o.Host.Covers(h) {
			return true
		}
	}
	return false
}

// routeRefs says whether a gateway may call all that a route leads to, and whether that is there.
func (s *Snapshot) routeRefs(r *model.AttachedRoute) model.Condition {
	for _, f := range r.Foreign {
		if !r.ResolvedRefs.Status {
			break
		}
		switch {
		case s.allowsRoute(r, f):
		case f.Service == (model.ObjectName{}):
			return model.Condition{Reason: backendNotFound, Message: fmt.Sprintf(
				"no Service or ServiceEntry of namespace %s has the host %s", r.Namespace, f.Host,
			)}
		default:
			return model.Condition{Reason: refNotPermitted, Message: fmt.Sprintf(
				"no ReferenceGrant in namespace %s allows the Service %s", f.Service.Namespace, f.Service.Name,
			)}
		}
	}
	return s.backendRefs(r)
}

// backendRefs says whether what a route leads to is there.
func (s *Snapshot) backendRefs(r *model.AttachedRoute) model.Condition {
	if !r.ResolvedRefs.Status {
		return r.ResolvedRefs
	}
	for host, port := range destinationsOf(r) {
		if host != "" && s.isAlias(host) {
			return model.Condition{Reason: refNotPermitted, Message: fmt.Sprintf(
				"the Service with the host %s is of type ExternalName, which would lead past ReferenceGrants; "+
					"want a Service with endpoints, or a Hostname of a ServiceEntry", host,
			)}
		}
		if host != "" && !s.hasPort(host, port) {
			return model.Condition{Reason: backendNotFound, Message: fmt.Sprintf(
				"there is no Service with the host %s and port %d", host, port,
			)}
		}
	}
	return r.ResolvedRefs
}

func (s *Snapshot) hasPort(host model.Host, port uint16) bool {
	for svc := range s.Claims(host) {
		if _, has := svc.Port(port); has || port == 0 {
			return true
		}
	}
	return false
}

// allowsRoute reports whether a gateway may lead requests of a route to a host. A host that is
// named as such belongs to the object that claims it first: a ServiceEntry does not make the
// Service of another namespace a part of its own.
func (s *Snapshot) allowsRoute(r *model.AttachedRoute, f model.ForeignHost) bool {
	if f.Service == (model.ObjectName{}) {
		for svc := range s.Claims(f.Host) {
			return svc.Namespace == r.Namespace
		}
		return false
	}
	from := model.GrantFrom{Group: kinds.GatewayAPIGroup, Kind: string(r.Kind), Namespace: r.Namespace}
	return s.grants(from, f.Service.Namespace, model.GrantTo{Kind: "Service", Name: f.Service.Name})
}
