package meshlife

import "github.com/lateen-mesh/lateen/internal/api/model"

// pools make parts of objects canonical as the conversion does: equal content, one pointer.
type pools struct {
	httpRoutes  *model.Pool[model.HTTPRoute]
	httpMatches *model.Pool[model.HTTPMatch]
	tlsRoutes   *model.Pool[model.TLSRoute]
	tcpRoutes   *model.Pool[model.TCPRoute]
	l4Matches   *model.Pool[model.L4Match]
	retries     *model.Pool[model.Retries]
	policies    *model.Pool[model.TrafficPolicy]
	connections *model.Pool[model.ConnectionPool]
	clusters    *model.Pool[model.ClusterDefaults]
	settings    *model.Pool[model.ConnectionSettings]
	hashes      *model.Pool[model.HashPolicy]
	sessions    *model.Pool[model.Session]
	serverTLS   *model.Pool[model.ServerTLS]
	localities  *model.Pool[model.LocalityLB]
	tokens      *model.Pool[model.TokenRule]
	patches     *model.Pool[model.ConfigPatch]
}

func newPools() *pools {
	return &pools{
		httpRoutes:  model.NewPool[model.HTTPRoute](),
		httpMatches: model.NewPool[model.HTTPMatch](),
		tlsRoutes:   model.NewPool[model.TLSRoute](),
		tcpRoutes:   model.NewPool[model.TCPRoute](),
		l4Matches:   model.NewPool[model.L4Match](),
		retries:     model.NewPool[model.Retries](),
		policies:    model.NewPool[model.TrafficPolicy](), hashes: model.NewPool[model.HashPolicy](),
		connections: model.NewPool[model.ConnectionPool](), sessions: model.NewPool[model.Session](),
		clusters:  model.NewPool[model.ClusterDefaults](),
		settings:  model.NewPool[model.ConnectionSettings](),
		serverTLS: model.NewPool[model.ServerTLS](), localities: model.NewPool[model.LocalityLB](),
		tokens: model.NewPool[model.TokenRule](), patches: model.NewPool[model.ConfigPatch](),
	}
}

// converted returns a copy of an object as the conversion would give it.
func (p *pools) converted(o model.Object) model.Object {
	o = Clone(o)
	switch o := o.(type) {
	case *model.VirtualService:
		p.routes(o)
	case *model.RootRoutes:
		p.routes(&o.VirtualService)
	case *model.DelegateRoutes:
		each(o.HTTP, p.httpRoute)
	case *model.Service:
		o.Session = p.sessions.Canonical(o.Session)
	case *model.DestinationRule:
		o.Policy = p.policy(o.Policy)
		for i := range o.Subsets {
			o.Subsets[i].Policy = p.policy(o.Subsets[i].Policy)
		}
	case *model.Sidecar:
		o.Pool = p.connections.Canonical(o.Pool)
		for i := range o.Ingress {
			o.Ingress[i].Pool = p.connections.Canonical(o.Ingress[i].Pool)
			o.Ingress[i].TLS = p.serverTLS.Canonical(o.Ingress[i].TLS)
		}
	case *model.Gateway:
		for i := range o.Servers {
			o.Servers[i].TLS = p.serverTLS.Canonical(o.Servers[i].TLS)
		}
	case *model.KubernetesGateway:
		for i := range o.Listeners {
			o.Listeners[i].TLS = p.serverTLS.Canonical(o.Listeners[i].TLS)
		}
	case *model.AttachedRoute:
		each(o.HTTP, p.httpRoute)
		each(o.TCP, p.tcpRoutes.Canonical)
	case *model.RequestAuthentication:
		each(o.Rules, p.tokens.Canonical)
	case *model.EnvoyFilter:
		each(o.Patches, p.patches.Canonical)
	case *model.MeshConfig:
		o.Clusters, o.Connections = p.clusters.Canonical(o.Clusters), p.settings.Canonical(o.Connections)
		o.Retries, o.Locality = p.retries.Canonical(o.Retries), p.localities.Canonical(o.Locality)
	}
	return o
}

func (p *pools) routes(v *model.VirtualService) {
	each(v.HTTP, p.httpRoute)
	each(v.TLS, func(r *model.TLSRoute) *model.TLSRoute {
		each(r.Matches, p.l4Matches.Canonical)
		return p.tlsRoutes.Canonical(r)
	})
	each(v.TCP, func(r *model.TCPRoute) *model.TCPRoute {
		each(r.Matches, p.l4Matches.Canonical)
		return p.tcpRoutes.Canonical(r)
	})
}

func (p *pools) httpRoute(r *model.HTTPRoute) *model.HTTPRoute {
	each(r.Matches, p.httpMatches.Canonical)
	r.Retries, r.Session = p.retries.Canonical(r.Retries), p.sessions.Canonical(r.Session)
	return p.httpRoutes.Canonical(r)
}

func (p *pools) policy(t *model.TrafficPolicy) *model.TrafficPolicy {
	if t == nil {
		return nil
	}
	if t.LB != nil {
		t.LB.Hash, t.LB.Locality = p.hashes.Canonical(t.LB.Hash), p.localities.Canonical(t.LB.Locality)
	}
	for i := range t.Ports {
		t.Ports[i].Policy = p.policy(t.Ports[i].Policy)
	}
	return p.policies.Canonical(t)
}

func each[T any](list []T, f func(T) T) {
	for i := range list {
		list[i] = f(list[i])
	}
}
