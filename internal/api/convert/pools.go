package convert

import "github.com/lateen-mesh/lateen/internal/api/model"

// pools make parts of translation inputs canonical: equal content, one pointer.
type pools struct {
	httpRoutes    *model.Pool[model.HTTPRoute]
	httpMatches   *model.Pool[model.HTTPMatch]
	tlsRoutes     *model.Pool[model.TLSRoute]
	tcpRoutes     *model.Pool[model.TCPRoute]
	l4Matches     *model.Pool[model.L4Match]
	retries       *model.Pool[model.Retries]
	policies      *model.Pool[model.TrafficPolicy]
	connections   *model.Pool[model.ConnectionPool]
	clusters      *model.Pool[model.ClusterDefaults]
	settings      *model.Pool[model.ConnectionSettings]
	sessions      *model.Pool[model.Session]
	hashes        *model.Pool[model.HashPolicy]
	serverTLS     *model.Pool[model.ServerTLS]
	tlsParams     *model.Pool[model.TLSParams]
	localities    *model.Pool[model.LocalityLB]
	extAuthz      *model.Pool[model.ExtAuthz]
	accessLogs    *model.Pool[model.AccessLog]
	tracers       *model.Pool[model.Tracer]
	stated        *model.Pool[model.Stated]
	authorization *model.Pool[model.AuthorizationRules]
	tokens        *model.Pool[model.TokenRule]
	patches       *model.Pool[model.ConfigPatch]
}

func newPools() *pools {
	return &pools{
		httpRoutes:    model.NewPool[model.HTTPRoute](),
		httpMatches:   model.NewPool[model.HTTPMatch](),
		tlsRoutes:     model.NewPool[model.TLSRoute](),
		tcpRoutes:     model.NewPool[model.TCPRoute](),
		l4Matches:     model.NewPool[model.L4Match](),
		retries:       model.NewPool[model.Retries](),
		policies:      model.NewPool[model.TrafficPolicy](),
		connections:   model.NewPool[model.ConnectionPool](),
		clusters:      model.NewPool[model.ClusterDefaults](),
		settings:      model.NewPool[model.ConnectionSettings](),
		sessions:      model.NewPool[model.Session](),
		hashes:        model.NewPool[model.HashPolicy](),
		serverTLS:     model.NewPool[model.ServerTLS](),
		tlsParams:     model.NewPool[model.TLSParams](),
		localities:    model.NewPool[model.LocalityLB](),
		extAuthz:      model.NewPool[model.ExtAuthz](),
		accessLogs:    model.NewPool[model.AccessLog](),
		tracers:       model.NewPool[model.Tracer](),
		stated:        model.NewPool[model.Stated](),
		authorization: model.NewPool[model.AuthorizationRules](),
		tokens:        model.NewPool[model.TokenRule](),
		patches:       model.NewPool[model.ConfigPatch](),
	}
}
