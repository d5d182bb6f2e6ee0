package state

import "github.com/lateen-mesh/lateen/internal/api/model"

// concerned returns what the batch may give another meaning.
func (a *attachments) concerned(b *batch) concern {
	c := concern{
		next: b.next, gateways: objectSet{}, routes: objectSet{}, sets: objectSet{}, backends: hostSet{},
		complete: objectSet{},
	}
	for _, p := range b.attach.gateways {
		c.gateway(p.Either())
	}
	for _, p := range b.attach.routes {
		c.routes.add(&p.Either().Meta)
	}
	for _, p := range b.attach.sets {
		c.changedSet(p.Old)
		c.changedSet(p.New)
	}
	if c.isIdle() {
		return c
	}
	for _, p := range b.attach.classes {
		for g := range c.next.kubernetesGateways.by[kubernetesGatewaysByClass].under(join(p.Either().Name)) {
			c.gateway(g)
		}
	}
	for _, p := range b.attach.grants {
		at := join(p.Either().Namespace)
		c.gatewaysWithRoutes(kubernetesGatewaysByForeign, at)
		c.setsUnder(listenerSetsByForeign, at)
		c.routesUnder(attachedRoutesByForeign, at)
	}
	for _, p := range b.attach.namespaces {
		c.namespace(p.Either().Name)
	}
	policyTargets(c, b.delta.AuthorizationPolicies, authorizationSelection)
	policyTargets(c, b.delta.RequestAuthentications, tokenSelection)
	for _, p := range b.attach.bundles {
		c.gatewaysWithRoutes(kubernetesGatewaysByBundle, join(p.Either().Namespace, p.Either().Name))
	}
	for _, p := range b.delta.Credentials {
		at := join(p.Either().Namespace, p.Either().Name)
		c.gatewaysUnder(kubernetesGatewaysBySecret, at)
		c.setsUnder(listenerSetsBySecret, at)
	}
	for _, p := range b.delta.Services {
		c.service(p.Old)
		c.service(p.New)
	}
	return c
}

// concern collects what a batch concerns: hosts in backends by the policies for them.
type concern struct {
	next                   *Snapshot
	gateways, routes, sets objectSet
	backends               hostSet
	complete               objectSet // Gateways with their sets and routes, so that each is walked once
}

// isIdle reports whether there are no Gateways and no routes, so that nothing else need be looked
// up.
func (c concern) isIdle() bool {
	return c.next.kubernetesGateways.by[kubernetesGatewaysByName].len()+
		c.next.attachedRoutes.by[attachedRoutesByName].len() == 0
}

// gateway adds a Gateway, its ListenerSets and the routes of both.
func (c concern) gateway(g *model.KubernetesGateway) {
	if c.complete[g.Key()] {
		return
	}
	c.complete.add(&g.Meta)
	c.gateways.add(&g.Meta)
	c.routesUnder(attachedRoutesByParent, join(g.Namespace, g.Name))
	for set := range c.next.listenerSetsOf(g.Namespace, g.Name) {
		c.sets.add(&set.Meta)
		c.routesUnder(attachedRoutesByListenerSet, join(set.Namespace, set.Name))
	}
}

// gatewayAndSets adds a Gateway, if there is one, and its ListenerSets.
func (c concern) gatewayAndSets(g *model.KubernetesGateway) {
	if g == nil {
		return
	}
	c.gateways.add(&g.Meta)
	for set := range c.next.listenerSetsOf(g.Namespace, g.Name) {
		c.sets.add(&set.Meta)
	}
}

// changedSet adds a ListenerSet as it is or was, its Gateway, and the routes of both.
func (c concern) changedSet(set *model.ListenerSet) {
	if set == nil {
		return
	}
	c.sets.add(&set.Meta)
	c.routesUnder(attachedRoutesByListenerSet, join(set.Namespace, set.Name))
	if g := c.next.kubernetesGateway(set.Parent.Namespace, set.Parent.Name); g != nil {
		c.gateway(g)
	}
}

// namespace adds what depends on the labels of a namespace.
func (c concern) namespace(name string) {
	c.gatewaysUnder(kubernetesGatewaysByName, join(name)) // its revision
	c.routesUnder(attachedRoutesByName, join(name))
	for set := range c.next.listenerSets.by[listenerSetsByName].under(join(name)) {
		g := c.next.kubernetesGateway(set.Parent.Namespace, set.Parent.Name)
		if g != nil && g.Sets.ByLabels() {
			c.gateway(g)
		}
	}
}

func (c concern) gatewaysUnder(by column[model.KubernetesGateway], prefix []byte) {
	for g := range c.next.kubernetesGateways.by[by].under(prefix) {
		c.gateways.add(&g.Meta)
	}
}

// gatewaysWithRoutes adds Gateways whose listeners may open or close.
func (c concern) gatewaysWithRoutes(by column[model.KubernetesGateway], prefix []byte) {
	for g := range c.next.kubernetesGateways.by[by].under(prefix) {
		if len(g.Clients) > 0 {
			c.gateway(g)
		}
		c.gateways.add(&g.Meta)
	}
}

// setsUnder adds ListenerSets and their Gateways, which have their listeners.
func (c concern) setsUnder(by column[model.ListenerSet], prefix []byte) {
	for set := range c.next.listenerSets.by[by].under(prefix) {
		c.sets.add(&set.Meta)
		if g := c.next.kubernetesGateway(set.Parent.Namespace, set.Parent.Name); g != nil {
			c.gateways.add(&g.Meta)
		}
	}
}

func (c concern) routesUnder(by column[model.AttachedRoute], prefix []byte) {
	for r := range c.next.attachedRoutes.by[by].under(prefix) {
		c.routes.add(&r.Meta)
	}
}

// service adds what names a Service: the routes that lead to it, and the Gateways that it is the
// address of.
func (c concern) service(svc *model.Service) {
	if svc == nil {
		return
	}
	c.routesUnder(attachedRoutesByDestination, join(string(svc.Host)))
	c.routesUnder(attachedRoutesByService, join(string(svc.Host)))
	c.gatewaysUnder(kubernetesGatewaysByService, join(string(svc.Host)))
	for _, label := range gatewayNameLabels() {
		if name, has := svc.Selector.Get(label); has {
			if g := c.next.kubernetesGateway(svc.Namespace, name); g != nil {
				c.gateways.add(&g.Meta)
			}
		}
	}
}
