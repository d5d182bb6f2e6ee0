package route

import (
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Envoy's redirects keep the port of the Host header, but for one that is the default of the
// request's scheme. A redirect from http://a:8080 to https would lead to https://a:8080, where
// nobody speaks TLS. A redirect that names its port drops that of the header, and shows its own
// even where it is the default. So requests whose Host has a port get a route of their own, and for
// all others the URL stays without one.

const (
	authorityHeader = ":authority"
	schemeHeader    = "x-forwarded-proto" // what Envoy's redirects take for the request's scheme
	withAnyPort     = ".*:[0-9]+"
	httpsPort       = 443
	httpPort        = 80
)

// redirectsWithPort returns the routes of a redirect for requests whose Host has a port; r is its
// route for all.
func (t translator) redirectsWithPort(in *model.HTTPRoute, r *routev3.Route) []*routev3.Route {
	if r.GetRedirect() == nil || r.GetRedirect().GetPortRedirect() != 0 || in.Redirect.Authority != "" {
		return nil
	}
	to := in.Redirect
	switch {
	case to.Port != 0:
		return []*routev3.Route{atPort(r, uint32(to.Port))}
	case to.Scheme == "https":
		return []*routev3.Route{atPort(r, httpsPort)}
	case to.Scheme == "http":
		return []*routev3.Route{atPort(r, httpPort)}
	case to.PortOfScheme:
		secure, plain := atPort(r, httpsPort), atPort(r, httpPort)
		secure.Match.Headers = append(secure.Match.Headers, headerMatch(schemeHeader, exactly("https")))
		return []*routev3.Route{secure, plain}
	}
	return nil
}

// atPort returns the route for requests whose Host has a port, with another one in the URL.
func atPort(r *routev3.Route, port uint32) *routev3.Route {
	out := proto.CloneOf(r)
	out.Match.Headers = append(out.Match.Headers,
		headerMatch(authorityHeader, model.StringMatch{Kind: model.Regex, Value: withAnyPort}))
	out.GetRedirect().PortRedirect = port
	return out
}

// secureRedirects are the routes that lead all requests in plaintext to https. The Gateway server's
// HTTPS has a port of its own: it is named to those who call the plaintext server by the server's
// own port. All others came by a port that something in front of the gateway maps, so that https
// has its default there too.
func secureRedirects(in VirtualHostInput) []*routev3.Route {
	to := func(port uint32, host ...*routev3.HeaderMatcher) *routev3.Route {
		// "OPTIONS *" has no path that begins with a slash
		match := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: regex(anything)}}
		match.Headers = append(host, withoutHeader(model.HeaderMatch{Name: schemeHeader, Match: exactly("https")}))
		return &routev3.Route{Name: secureRoute, Match: match, Action: &routev3.Route_Redirect{
			Redirect: &routev3.RedirectAction{
				SchemeRewriteSpecifier: &routev3.RedirectAction_HttpsRedirect{HttpsRedirect: true}, PortRedirect: port,
			},
		}}
	}
	anyPort := headerMatch(authorityHeader, model.StringMatch{Kind: model.Regex, Value: withAnyPort})
	others := []*routev3.Route{to(httpsPort, anyPort), to(0)}
	if in.SecurePort == 0 || in.SecurePort == httpsPort {
		return others
	}
	secure := uint32(in.SecurePort)
	own := model.StringMatch{Kind: model.Regex, Value: fmt.Sprintf(".*:%d", in.Port)}
	if in.Port == httpPort { // clients leave it out
		others[1] = to(secure)
	}
	return append([]*routev3.Route{to(secure, headerMatch(authorityHeader, own))}, others...)
}

func exactly(value string) model.StringMatch {
	return model.StringMatch{Kind: model.Exact, Value: value}
}
