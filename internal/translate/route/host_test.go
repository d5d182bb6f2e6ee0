package route_test

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

func names(vh *routev3.VirtualHost) []string {
	var out []string
	for _, r := range vh.GetRoutes() {
		out = append(out, r.GetName())
	}
	return out
}

func owned(owner, name string, match *model.HTTPMatch) route.RouteRef {
	return route.RouteRef{
		Owner: source.Key{Kind: kinds.VirtualService, Namespace: "default", Name: owner},
		Route: &model.HTTPRoute{Name: name, Destinations: []model.Destination{{Host: "a.test"}}},
		Match: match,
	}
}

func prefix(p string) *model.HTTPMatch {
	return &model.HTTPMatch{URI: &model.StringMatch{Kind: model.Prefix, Value: p}}
}

func routes(refs ...route.RouteRef) *model.List[route.RouteRef] {
	return model.NewInterner[route.RouteRef]().List(refs)
}

func TestRoutesThatNothingCanReachAreLeftOut(t *testing.T) {
	vh := route.VirtualHost(route.VirtualHostInput{
		Routes: routes(
			owned("a", "some", prefix("/some")), owned("a", "all", nil), owned("a", "dead", prefix("/dead")),
		),
		Default: route.Target{Host: "a.test", Port: 80},
	})
	require.Equal(t, []string{"some", "all"}, names(vh))
}

func TestDefaultFollowsConditions(t *testing.T) {
	in := route.VirtualHostInput{Routes: routes(owned("a", "some", prefix("/some")))}
	require.Equal(t, []string{"some"}, names(route.VirtualHost(in)))
	in.Default = route.Target{Host: "a.test", Port: 80}
	require.Equal(t, []string{"some", "default"}, names(route.VirtualHost(in)))
}

func TestOwnersOfOneHostHaveAllTheirConditionsTried(t *testing.T) {
	vh := route.VirtualHost(route.VirtualHostInput{Routes: routes(
		owned("a", "a-some", prefix("/a")), owned("a", "a-all", prefix("/")), owned("a", "a-dead", prefix("/dead")),
		owned("b", "b-some", prefix("/b")), owned("b", "b-all", nil), owned("b", "b-dead", prefix("/dead")),
	)})
	require.Equal(t, []string{"a-some", "b-some", "a-all"}, names(vh))
}

func TestDestinationWithoutFactKeepsItsPort(t *testing.T) {
	ref := owned("a", "x", nil)
	ref.Route.Destinations = []model.Destination{{Host: "a.test", Port: 81, Weight: 1}, {
		Host:   "b.test",
		Subset: "v1",
		Weight: 2,
	}}
	clusters := route.VirtualHost(route.VirtualHostInput{Routes: routes(ref), Port: 80}).
		GetRoutes()[0].GetRoute().GetWeightedClusters().GetClusters()
	require.Equal(t, "outbound|81||a.test", clusters[0].GetName())
	require.Equal(t, "outbound|80|v1|b.test", clusters[1].GetName())
}

func TestFactsAreFoundByHostPortAndSubset(t *testing.T) {
	ref := owned("a", "x", nil)
	ref.Route.Destinations = []model.Destination{{Host: "a.test", Subset: "v2"}}
	facts := model.NewInterner[route.DestinationFact]().List([]route.DestinationFact{
		{Host: "a.test", Resolved: 1},
		{Host: "a.test", Subset: "v1", Resolved: 2},
		{Host: "a.test", Subset: "v2", Resolved: 3},
		{Host: "a.test", Port: 4, Subset: "v2", Resolved: 4},
	})
	vh := route.VirtualHost(route.VirtualHostInput{Routes: routes(ref), Facts: facts, Port: 80})
	require.Equal(t, "outbound|3|v2|a.test", vh.GetRoutes()[0].GetRoute().GetCluster())
}

func TestRoutesToUnusableDestinationsAnswer503(t *testing.T) {
	for name, r := range map[string]model.HTTPRoute{
		"broken":        {Broken: "no such thing", Destinations: []model.Destination{{Host: "a.test"}}},
		"nothing":       {},
		"no weight":     {Destinations: []model.Destination{{Host: "a.test"}, {Host: "b.test"}}},
		"redirect code": {Redirect: &model.Redirect{Code: 305}},
		"direct status": {Direct: &model.DirectResponse{Status: 42}},
		"direct body":   {Direct: &model.DirectResponse{Status: 200, Body: make([]byte, 1<<20+1)}},
		"fault status": {Destinations: []model.Destination{{Host: "a.test"}}, Fault: &model.Fault{
			AbortHTTP:    999,
			AbortPercent: 1,
		}},
		"a very long story": {Broken: string(make([]byte, 5000)) + "é"},
	} {
		t.Run(name, func(t *testing.T) {
			out := route.VirtualHost(route.VirtualHostInput{Routes: routes(route.RouteRef{
				Route: &r,
				Match: prefix("/x"),
			})}).GetRoutes()[0]
			require.Equal(t, "/x", out.GetMatch().GetPrefix())
			require.Equal(t, uint32(503), out.GetDirectResponse().GetStatus())
			body := out.GetDirectResponse().GetBody().GetInlineString()
			require.Contains(t, body, "This route is not in force: ")
			require.Less(t, len(body), 1000)
		})
	}
}

// TestClosedRoutesNameNoFieldToStrangers: at a gateway the cause is in the metadata alone. Rules of
// the Gateway API answer 500.
func TestClosedRoutesNameNoFieldToStrangers(t *testing.T) {
	for _, attached := range []bool{false, true} {
		r := &model.HTTPRoute{Broken: "matches[0].path: is no path", AnswersMissing500: attached}
		out := route.VirtualHost(route.VirtualHostInput{
			Strangers: true, Routes: routes(route.RouteRef{Route: r, Match: prefix("/x")}),
		}).GetRoutes()[0]
		status := map[bool]uint32{false: 503, true: 500}[attached]
		require.Equal(t, status, out.GetDirectResponse().GetStatus())
		require.NotContains(t, out.GetDirectResponse().GetBody().GetInlineString(), "matches")
		why := out.GetMetadata().GetFilterMetadata()["lateen"].GetFields()["closed"]
		require.Equal(t, r.Broken, why.GetStringValue())
	}
}

func TestFallbackBlocksOrPassesUnknownHosts(t *testing.T) {
	blocked := route.Fallback(route.FallbackInput{})
	require.Equal(t, []string{"*"}, blocked.GetDomains())
	require.Equal(t, uint32(502), blocked.GetRoutes()[0].GetDirectResponse().GetStatus())
	allowed := route.Fallback(route.FallbackInput{To: "PassthroughCluster"})
	require.Equal(t, []string{"*"}, allowed.GetDomains())
	require.Equal(t, "PassthroughCluster", allowed.GetRoutes()[0].GetRoute().GetCluster())
	require.NotNil(t, allowed.GetRoutes()[0].GetRoute().GetTimeout(), "Envoy's default of 15 s must not apply")
	require.Empty(t, allowed.GetTypedPerFilterConfig())
	looked := route.Fallback(route.FallbackInput{To: "AllowAnyDynamicDNSCluster", DynamicDNS: true})
	require.Equal(t, "allow_any_dynamic_dns", looked.GetRoutes()[0].GetName())
	require.Contains(t, looked.GetTypedPerFilterConfig(), pb.DynamicDNSFilter)
}

func TestTableIsNotValidatedAgainstClusters(t *testing.T) {
	table := route.Table(route.TableInput{Name: "9080", AnyPort: true})
	require.Equal(t, "9080", table.GetName())
	require.False(t, table.GetValidateClusters().GetValue())
	require.NotNil(t, table.GetValidateClusters())
	require.True(t, table.GetIgnorePortInHostMatching())
	require.Empty(t, table.GetVirtualHosts())
	require.False(t, route.Table(route.TableInput{Name: "http_proxy"}).GetIgnorePortInHostMatching())
}

func TestHostOfADestinationIsARewrite(t *testing.T) {
	set := func(name, value string) *model.HeaderOps {
		return &model.HeaderOps{Request: model.HeaderOp{Set: []model.Header{{
			Name:  name,
			Value: value,
		}, {Name: "x-a", Value: "1"}}, Remove: []string{"host", "x-b"}}}
	}
	translate := func(r *model.HTTPRoute) *routev3.Route {
		return route.VirtualHost(route.VirtualHostInput{
			Routes: routes(route.RouteRef{Route: r}),
			Port:   80,
		}).GetRoutes()[0]
	}
	one := translate(&model.HTTPRoute{Destinations: []model.Destination{{
		Host:    "a.test",
		Headers: set("Host", "one.test"),
	}}})
	require.Equal(t, "one.test", one.GetRoute().GetHostRewriteLiteral())
	require.Len(t, one.GetRequestHeadersToAdd(), 1, "Envoy refuses Host among them")
	require.Equal(t, []string{"x-b"}, one.GetRequestHeadersToRemove())

	both := translate(&model.HTTPRoute{
		Headers:      set(":authority", "route.test"),
		Destinations: []model.Destination{{Host: "a.test", Headers: set("Host", "one.test")}},
	})
	require.Equal(t, "route.test", both.GetRoute().GetHostRewriteLiteral())

	several := translate(&model.HTTPRoute{Destinations: []model.Destination{
		{Host: "a.test", Weight: 1, Headers: set("Host", "one.test")}, {Host: "a.test", Subset: "v2", Weight: 1},
	}})
	require.Nil(t, several.GetRoute().GetHostRewriteSpecifier())
	require.Equal(t, "one.test", several.GetRoute().GetWeightedClusters().GetClusters()[0].GetHostRewriteLiteral())
}
