package route

import (
	"net/http"
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Istio's names, by which people and tools know these routes.
const (
	defaultRoute     = "default"
	allowAnyRoute    = "allow_any"
	anyNameRoute     = "allow_any_dynamic_dns"
	blockAllRoute    = "block_all"
	closedRoute      = "closed"
	misdirectedRoute = "misdirected"
	secureRoute      = "https_redirect"
	otherPortRoute   = "other_port"
)

// maxDirectResponseBody is Istio's limit in bytes; Envoy's own is 4 KiB.
const maxDirectResponseBody = 1 << 20

// VirtualHost translates the routes of one host. The name is left empty: the assembly writes it.
func VirtualHost(in VirtualHostInput) *routev3.VirtualHost {
	out := &routev3.VirtualHost{
		Domains:                    domains(in.Domains),
		Routes:                     translator{in}.routes(),
		IncludeRequestAttemptCount: !in.NoAttemptCount,
	}
	out.TypedPerFilterConfig = hostFilters(in.GRPCWeb, in.DynamicDNS)
	if in.DynamicDNS {
		out.Routes = append([]*routev3.Route{otherPorts(in.Port)}, out.Routes...)
	}
	if in.Misdirected {
		action := directAction(&model.DirectResponse{Status: http.StatusMisdirectedRequest})
		out.Routes = []*routev3.Route{{Name: misdirectedRoute, Match: matchAll(), Action: action}}
	}
	if in.RequireTLS {
		out.Routes = append(secureRedirects(in), out.Routes...)
	}
	return out
}

// hostFilters turns on the filters that a virtual host needs; nil if it needs none.
func hostFilters(grpcWeb, dynamicDNS bool) map[string]*anypb.Any {
	var filters map[string]*anypb.Any
	for name, needed := range map[string]bool{pb.GRPCWebFilter: grpcWeb, pb.DynamicDNSFilter: dynamicDNS} {
		if needed && filters == nil {
			filters = map[string]*anypb.Any{}
		}
		if needed {
			filters[name] = pb.Any(turnedOn())
		}
	}
	return filters
}

// otherPorts refuses requests whose Host header names another port than one. Without a port it is
// that of HTTP, to which the proxy would connect.
func otherPorts(port uint16) *routev3.Route {
	hosts := "[^:]+:" + strconv.Itoa(int(port))
	if port == httpPort {
		hosts = "[^:]+(:80)?"
	}
	match := matchAll()
	match.Headers = []*routev3.HeaderMatcher{{
		Name: authorityHeader,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(hosts)},
		}},
		InvertMatch: true,
	}}
	action := directAction(&model.DirectResponse{
		Status: http.StatusNotFound, Body: []byte("The Host header names another port than the one that was called\n"),
	})
	return &routev3.Route{Name: otherPortRoute, Match: match, Action: action}
}

// turnedOn turns a filter on that the listener has turned off: Envoy takes a configuration that is
// there and empty for that.
func turnedOn() *routev3.FilterConfig { return &routev3.FilterConfig{Config: &anypb.Any{}} }

// Fallback is the virtual host that takes the Host headers which no other one does: the outbound
// traffic policy. The name is left empty.
func Fallback(in FallbackInput) *routev3.VirtualHost {
	r := &routev3.Route{Match: matchAll()}
	if in.To == "" {
		r.Name = blockAllRoute
		r.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}}
	} else {
		r.Name = allowAnyRoute
		if in.DynamicDNS {
			r.Name = anyNameRoute
		}
		action := &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: in.To}}
		setTimeout(action, 0)
		r.Action = &routev3.Route_Route{Route: action}
	}
	return &routev3.VirtualHost{
		Domains: []string{"*"}, Routes: []*routev3.Route{r}, IncludeRequestAttemptCount: !in.NoAttemptCount,
		TypedPerFilterConfig: hostFilters(false, in.DynamicDNS),
	}
}

// Closed is the virtual host of domains whose routes cannot be served: it answers 503. The name is
// left empty.
func Closed(names *model.List[string]) *routev3.VirtualHost {
	action := brokenAction(http.StatusServiceUnavailable, "Envoy would refuse it")
	r := &routev3.Route{Name: closedRoute, Match: matchAll(), Action: action}
	return &routev3.VirtualHost{Domains: domains(names), Routes: []*routev3.Route{r}, IncludeRequestAttemptCount: true}
}

// Table is a route table without its virtual hosts. Envoy does not check that clusters exist: they
// arrive on their own.
func Table(in TableInput) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:                           in.Name,
		ValidateClusters:               wrapperspb.Bool(false),
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(maxDirectResponseBody),
		IgnorePortInHostMatching:       in.AnyPort,
	}
}

func domains(list *model.List[string]) []string {
	out := make([]string, 0, list.Len())
	for d := range list.All() {
		out = append(out, d)
	}
	return out
}

// translator makes the routes of one input.
type translator struct{ in VirtualHostInput }

// routes are those that a request can reach. Of one owner, what stands behind a route that takes
// everything is left out. Several owners (VirtualServices bound to one Gateway) have all their
// conditions tried before the first of the routes that take everything, as Istio merges them: else
// the second owner's routes would be dead.
func (t translator) routes() []*routev3.Route {
	out := make([]*routev3.Route, 0, t.in.Routes.Len()+1)
	var last *routev3.Route
	var lastWithPort []*routev3.Route
	var lastOwner source.Key
	for ref := range t.in.Routes.All() {
		if last != nil && ref.Owner == lastOwner {
			continue
		}
		r := t.route(ref)
		withPort := t.redirectsWithPort(ref.Route, r)
		if !takesAll(r.GetMatch()) {
			out = append(append(out, withPort...), r)
			continue
		}
		lastOwner = ref.Owner
		if last == nil {
			last, lastWithPort = r, withPort
		}
	}
	if last == nil {
		last = t.defaultRoute()
	}
	if last != nil {
		out = append(append(out, lastWithPort...), last)
	}
	return out
}

func (t translator) defaultRoute() *routev3.Route {
	to := t.in.Default
	if to == (Target{}) {
		return nil
	}
	fact := t.fact(model.Destination{Host: to.Host, Port: to.Port, Subset: to.Subset})
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: pb.OutboundCluster(to.Host, to.Port, to.Subset)},
		HashPolicy:       hashPolicies(fact.Hash),
	}
	action.RetryPolicy = retryPolicy(t.in.Retries, fact.Hash != nil)
	setTimeout(action, 0)
	return &routev3.Route{
		Name:                 defaultRoute,
		Match:                matchAll(),
		Action:               &routev3.Route_Route{Route: action},
		TypedPerFilterConfig: filterConfig(&model.HTTPRoute{}, fact.Session),
	}
}
