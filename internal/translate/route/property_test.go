package route_test

import (
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// TestEqualInputsHaveEqualBytes draws an input twice from the same choices, so that no pointer is
// shared, and encodes both.
func TestEqualInputsHaveEqualBytes(t *testing.T) {
	gen := rapid.Custom(drawInput)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.IntRange(0, 1<<30).Draw(t, "seed")
		a, b := encode(t, gen.Example(seed)), encode(t, gen.Example(seed))
		require.Equal(t, a, b)
	})
}

func encode(t require.TestingT, in route.VirtualHostInput) []byte {
	body, err := pb.Marshal(route.VirtualHost(in))
	require.NoError(t, err)
	return body
}

// TestAnyInputIsServable states what holds for every virtual host, whatever stands in the model.
func TestAnyInputIsServable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		vh := route.VirtualHost(in)
		vh.Name = "the assembly's"
		require.NoError(t, vh.ValidateAll(), "Envoy's own constraints on fields")
		require.LessOrEqual(t, len(vh.GetRoutes()), in.Routes.Len()+1)
		for i, r := range vh.GetRoutes() {
			require.NotNil(t, r.GetAction(), "route %d does nothing", i)
			if i < len(vh.GetRoutes())-1 {
				require.False(t, everything(r.GetMatch()), "route %d of %d takes everything", i, len(vh.GetRoutes()))
			}
			if w := r.GetRoute().GetWeightedClusters(); w != nil {
				require.Greater(t, len(w.GetClusters()), 1)
				for _, c := range w.GetClusters() {
					require.Positive(t, c.GetWeight().GetValue())
				}
			}
		}
		if in.Default != (route.Target{}) {
			require.True(t, everything(vh.GetRoutes()[len(vh.GetRoutes())-1].GetMatch()), "some request goes nowhere")
		}
	})
}

func everything(m *routev3.RouteMatch) bool {
	return (m.GetPrefix() == "/" || m.GetSafeRegex().GetRegex() == ".*") &&
		len(m.GetHeaders())+len(m.GetQueryParameters()) == 0
}

func drawInput(t *rapid.T) route.VirtualHostInput {
	facts := make([]route.DestinationFact, 0, 4)
	for _, host := range []model.Host{"a.test", "b.test"} {
		for _, subset := range []string{"", "v1"} {
			facts = append(facts, route.DestinationFact{
				Host:     host,
				Subset:   subset,
				Resolved: 8080,
				Hash:     optional(drawHash).Draw(t, "hash"),
			})
		}
	}
	in := route.VirtualHostInput{
		Domains: model.NewInterner[string]().List([]string{"a.test", "a"}),
		Routes:  routes(rapid.SliceOfN(rapid.Custom(drawRef), 0, 6).Draw(t, "routes")...),
		Facts:   model.NewInterner[route.DestinationFact]().List(facts),
		Retries: model.DefaultRetries(),
		Port:    80,
	}
	if rapid.Bool().Draw(t, "default") {
		in.Default = route.Target{Host: "a.test", Port: 8080}
	}
	return in
}

func drawRef(t *rapid.T) route.RouteRef {
	owner := source.Key{
		Kind:      kinds.VirtualService,
		Namespace: "default",
		Name:      rapid.SampledFrom([]string{"x", "y"}).Draw(t, "owner"),
	}
	return route.RouteRef{Owner: owner, Route: drawRoute(t), Match: optional(drawMatch).Draw(t, "match")}
}

func drawRoute(t *rapid.T) *model.HTTPRoute {
	r := &model.HTTPRoute{
		Name:    word.Draw(t, "name"),
		Timeout: time.Duration(rapid.IntRange(0, 9).Draw(t, "timeout")) * time.Second,
		Rewrite: optional(func(t *rapid.T) model.Rewrite {
			return model.Rewrite{
				URI:       path.Draw(t, "uri"),
				Authority: word.Draw(t, "authority"),
				Regex:     word.Draw(t, "regex"),
			}
		}).Draw(t, "rewrite"),
		Retries: optional(drawRetries).Draw(t, "retries"),
		Fault:   optional(drawFault).Draw(t, "fault"),
		CORS:    optional(drawCORS).Draw(t, "cors"),
		Headers: optional(drawHeaders).Draw(t, "headers"),
	}
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		r.Broken = "because"
	case 1:
		r.Redirect = &model.Redirect{
			URI:             path.Draw(t, "to"),
			Code:            rapid.Uint32Range(299, 310).Draw(t, "code"),
			PortFromRequest: rapid.Bool().Draw(t, "port"),
		}
	case 2:
		r.Direct = &model.DirectResponse{
			Status: rapid.Uint32Range(190, 610).Draw(t, "status"),
			Body:   []byte(word.Draw(t, "body")),
		}
	default:
		r.Destinations = rapid.SliceOfN(rapid.Custom(drawDestination), 0, 4).Draw(t, "destinations")
		for _, d := range rapid.SliceOfN(rapid.Custom(drawDestination), 0, 2).Draw(t, "mirrors") {
			r.Mirrors = append(r.Mirrors, model.Mirror{
				Destination: d,
				Percent:     rapid.Uint32Range(0, 1_000_000).Draw(t, "share"),
			})
		}
	}
	return r
}

func drawMatch(t *rapid.T) model.HTTPMatch {
	return model.HTTPMatch{
		Name:           word.Draw(t, "name"),
		URI:            optional(drawString).Draw(t, "uri"),
		IgnoreURICase:  rapid.Bool().Draw(t, "case"),
		Scheme:         optional(drawString).Draw(t, "scheme"),
		Method:         optional(drawString).Draw(t, "method"),
		Authority:      optional(drawString).Draw(t, "authority"),
		Headers:        rapid.SliceOfN(rapid.Custom(drawCondition), 0, 2).Draw(t, "headers"),
		WithoutHeaders: rapid.SliceOfN(rapid.Custom(drawCondition), 0, 2).Draw(t, "without"),
		Query:          rapid.SliceOfN(rapid.Custom(drawCondition), 0, 2).Draw(t, "query"),
	}
}

func drawCondition(t *rapid.T) model.HeaderMatch {
	return model.HeaderMatch{Name: "x-" + word.Draw(t, "name"), Match: drawString(t)}
}

func drawString(t *rapid.T) model.StringMatch {
	kind := rapid.SampledFrom([]model.MatchKind{model.Exact, model.Prefix, model.Regex, model.Present}).Draw(t, "kind")
	return model.StringMatch{Kind: kind, Value: path.Draw(t, "value")}
}

func drawDestination(t *rapid.T) model.Destination {
	return model.Destination{
		Host:    model.Host(rapid.SampledFrom([]string{"a.test", "b.test", "c.test"}).Draw(t, "host")),
		Subset:  rapid.SampledFrom([]string{"", "v1"}).Draw(t, "subset"),
		Port:    rapid.Uint16Range(0, 1).Draw(t, "port"),
		Weight:  rapid.Uint32Range(0, 3).Draw(t, "weight"),
		Headers: optional(drawHeaders).Draw(t, "headers"),
	}
}

func drawHeaders(t *rapid.T) model.HeaderOps {
	op := func() model.HeaderOp {
		name := rapid.SampledFrom([]string{"x-a", "x-b", "Host", ":authority", ":path"})
		header := rapid.Custom(func(t *rapid.T) model.Header {
			return model.Header{Name: name.Draw(t, "name"), Value: word.Draw(t, "value")}
		})
		return model.HeaderOp{
			Set:    rapid.SliceOfN(header, 0, 2).Draw(t, "set"),
			Add:    rapid.SliceOfN(header, 0, 2).Draw(t, "add"),
			Remove: rapid.SliceOfN(name, 0, 2).Draw(t, "remove"),
		}
	}
	return model.HeaderOps{Request: op(), Response: op()}
}

func drawHash(t *rapid.T) model.HashPolicy {
	return rapid.SampledFrom([]model.HashPolicy{
		{Header: "x-user"}, {Query: "user"}, {SourceIP: true}, {Cookie: "user"}, {Cookie: "user", CookieTTLSet: true},
	}).Draw(t, "hash")
}

func drawRetries(t *rapid.T) model.Retries {
	return model.Retries{
		Attempts:              rapid.Uint32Range(0, 3).Draw(t, "attempts"),
		PerTryTimeout:         time.Duration(rapid.IntRange(0, 2).Draw(t, "per try")) * time.Second,
		RetryOn:               rapid.SampledFrom([]string{"", "5xx", "5xx,retriable-status-codes"}).Draw(t, "on"),
		StatusCodes:           rapid.SliceOfN(rapid.Uint32Range(500, 504), 0, 2).Draw(t, "codes"),
		RemoteLocalities:      rapid.Bool().Draw(t, "remote"),
		IgnorePreviousHosts:   rapid.Bool().Draw(t, "previous"),
		Backoff:               time.Duration(rapid.IntRange(0, 2).Draw(t, "backoff")) * time.Second,
		HostSelectionAttempts: 5,
	}
}

func drawFault(t *rapid.T) model.Fault {
	return model.Fault{
		Delay:        time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")) * time.Second,
		DelayPercent: rapid.Uint32Range(0, 1_000_000).Draw(t, "delayed"),
		AbortHTTP:    rapid.SampledFrom([]uint32{0, 42, 200, 503, 600}).Draw(t, "http"),
		AbortGRPC:    rapid.SampledFrom([]string{"", "UNAVAILABLE", "NONSENSE"}).Draw(t, "grpc"),
		AbortPercent: rapid.Uint32Range(0, 1_000_000).Draw(t, "aborted"),
	}
}

func drawCORS(t *rapid.T) model.CORS {
	return model.CORS{
		Origins:          rapid.SliceOfN(rapid.Custom(drawString), 0, 2).Draw(t, "origins"),
		Methods:          rapid.SliceOfN(word, 0, 2).Draw(t, "methods"),
		MaxAge:           time.Duration(rapid.IntRange(0, 2).Draw(t, "age")) * time.Hour,
		AllowCredentials: optional(func(t *rapid.T) bool { return rapid.Bool().Draw(t, "b") }).Draw(t, "credentials"),
		ForwardUnmatched: optional(func(t *rapid.T) bool { return rapid.Bool().Draw(t, "b") }).Draw(t, "forward"),
	}
}

var (
	word = rapid.StringMatching(`[a-z]{0,3}`)
	path = rapid.SampledFrom([]string{"", "/", "/a", "/a/", ".*", "a+"})
)

func optional[T any](draw func(*rapid.T) T) *rapid.Generator[*T] {
	return rapid.Custom(func(t *rapid.T) *T {
		if rapid.Bool().Draw(t, "unset") {
			return nil
		}
		v := draw(t)
		return &v
	})
}
