package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

func exact(v string) *model.StringMatch  { return &model.StringMatch{Kind: model.Exact, Value: v} }
func prefix(v string) *model.StringMatch { return &model.StringMatch{Kind: model.Prefix, Value: v} }
func regex(v string) *model.StringMatch  { return &model.StringMatch{Kind: model.Regex, Value: v} }

func header(name string, m model.StringMatch) []model.HeaderMatch {
	return []model.HeaderMatch{{Name: name, Match: m}}
}

// Matches of a delegate have to be within those of the root, by the rules of Istio's
// mergeHTTPMatchRequests; nil is a route that is left out.
func TestMatchesOfADelegateAreWithinThoseOfTheRoot(t *testing.T) {
	type match = model.HTTPMatch
	labels := func(key, value string) model.Labels { return model.LabelsOf(map[string]string{key: value}) }
	present := model.StringMatch{Kind: model.Present}
	for name, c := range map[string]struct {
		root, own, want *match
	}{
		"a longer prefix":        {&match{URI: prefix("/a")}, &match{URI: prefix("/a/b")}, &match{URI: prefix("/a/b")}},
		"a shorter prefix":       {&match{URI: prefix("/a/b")}, &match{URI: prefix("/a")}, nil},
		"an exact one below":     {&match{URI: prefix("/a")}, &match{URI: exact("/a/b")}, &match{URI: exact("/a/b")}},
		"an exact one elsewhere": {&match{URI: prefix("/a")}, &match{URI: exact("/b")}, nil},
		"equal exact ones":       {&match{URI: exact("/a")}, &match{URI: exact("/a")}, &match{URI: exact("/a")}},
		"a prefix of an exact":   {&match{URI: exact("/a")}, &match{URI: prefix("/a")}, nil},
		"a regex alone":          {&match{}, &match{URI: regex("/a")}, &match{URI: regex("/a")}},
		"a regex of the root":    {&match{URI: regex("/a")}, &match{Port: 80}, &match{URI: regex("/a"), Port: 80}},
		"a regex beside another": {&match{URI: regex("/a")}, &match{URI: regex("/a")}, nil},
		"a regex in a prefix":    {&match{URI: prefix("/a")}, &match{URI: regex("/a/.*")}, nil},
		"case":                   {&match{IgnoreURICase: true}, &match{URI: prefix("/a")}, nil},
		"method and scheme": {
			&match{Method: exact("GET")}, &match{Scheme: exact("https"), Authority: exact("a")},
			&match{Method: exact("GET"), Scheme: exact("https"), Authority: exact("a")},
		},
		"another method": {&match{Method: exact("GET")}, &match{Method: exact("PUT")}, nil},
		"names":          {&match{Name: "r"}, &match{Name: "d"}, &match{Name: "r-d"}},
		"other headers": {
			&match{Headers: header("b", *exact("1"))}, &match{Headers: header("a", *exact("2"))},
			&match{Headers: append(header("a", *exact("2")), header("b", *exact("1"))...)},
		},
		"a narrower header": {
			&match{Headers: header("a", *prefix("1"))}, &match{Headers: header("a", *exact("12"))},
			&match{Headers: header("a", *exact("12"))},
		},
		"another header value": {
			&match{Headers: header("a", *exact("1"))}, &match{Headers: header("a", *exact("2"))}, nil,
		},
		"presence in a value": {&match{Headers: header("a", present)}, &match{Headers: header("a", *exact("2"))}, nil},
		"without headers": {
			&match{WithoutHeaders: header("a", present)}, &match{WithoutHeaders: header("b", present)},
			&match{WithoutHeaders: append(header("a", present), header("b", present)...)},
		},
		"without the same": {
			&match{WithoutHeaders: header("a", *exact("1"))}, &match{WithoutHeaders: header("a", *exact("2"))}, nil,
		},
		"parameters": {
			&match{Query: header("a", *exact("1"))}, &match{Query: header("b", *exact("2"))},
			&match{Query: append(header("a", *exact("1")), header("b", *exact("2"))...)},
		},
		"another parameter": {&match{Query: header("a", *exact("1"))}, &match{Query: header("a", *exact("2"))}, nil},
		"a port":            {&match{Port: 80}, &match{}, &match{Port: 80}},
		"another port":      {&match{Port: 80}, &match{Port: 81}, nil},
		"the same port":     {&match{Port: 80}, &match{Port: 80}, &match{Port: 80}},
		"source labels": {
			&match{SourceLabels: labels("a", "1")}, &match{SourceLabels: labels("b", "2")},
			&match{SourceLabels: model.LabelsOf(map[string]string{"a": "1", "b": "2"})},
		},
		"other source labels":  {&match{SourceLabels: labels("a", "1")}, &match{SourceLabels: labels("a", "2")}, nil},
		"a source namespace":   {&match{}, &match{SourceNamespace: "a"}, &match{SourceNamespace: "a"}},
		"the root's namespace": {&match{SourceNamespace: "a"}, &match{}, nil}, // as in Istio
		"gateways":             {&match{Gateways: []string{"a/b"}}, &match{}, &match{Gateways: []string{"a/b"}}},
		"some of the gateways": {
			&match{Gateways: []string{"a/b", "mesh"}}, &match{Gateways: []string{"mesh"}},
			&match{Gateways: []string{"mesh"}},
		},
		"other gateways": {&match{Gateways: []string{"a/b"}}, &match{Gateways: []string{"mesh"}}, nil},
		"sources have no place": {
			&match{Gateways: []string{"a/b"}}, &match{SourceLabels: labels("a", "1")},
			&match{Gateways: []string{"a/b"}},
		},
	} {
		d := &delegations{newAttachments().canonical}
		got, outside := d.narrowed([]*match{c.root}, []*match{c.own})
		if c.want == nil {
			require.Zero(t, outside, name)
			require.Empty(t, got, name)
			continue
		}
		require.Equal(t, []*match{c.want}, got, name)
	}
}

// Each match of a delegate is combined with each of the root's that it is within. If one is within
// none, the whole route is left out.
func TestEachMatchOfADelegateIsWithinOneOfTheRoot(t *testing.T) {
	d := &delegations{newAttachments().canonical}
	got, outside := d.narrowed(prefixed("/a", "/a/b", "/c"), prefixed("/a/b/c", "/c/d"))
	require.Equal(t, prefixed("/a/b/c", "/a/b/c", "/c/d"), got)
	require.Equal(t, -1, outside)
	_, outside = d.narrowed(prefixed("/a"), prefixed("/a/b", "/c"))
	require.Equal(t, 1, outside)
	got, _ = d.narrowed(prefixed("/a"), nil)
	require.Equal(t, prefixed("/a"), got)
	got, _ = d.narrowed(nil, prefixed("/b"))
	require.Equal(t, prefixed("/b"), got)
}

// A route of a delegate takes what it leaves out from the route that delegates, field by field.
func TestADelegateInheritsWhatItLeavesOut(t *testing.T) {
	to := func(h model.Host) model.Destination { return model.Destination{Host: h} }
	mirror := func(h model.Host, percent uint32) model.Mirror {
		return model.Mirror{Destination: to(h), Percent: percent}
	}
	share := func(n uint32) *uint32 { return &n }
	rootRetries, ownRetries := &model.Retries{Attempts: 1}, &model.Retries{Attempts: 2}
	fault, cors := &model.Fault{AbortHTTP: 500}, &model.CORS{MaxAge: time.Hour}
	headers := &model.HeaderOps{Request: model.HeaderOp{Remove: []string{"x"}}}
	full := &model.HTTPRoute{
		Timeout: time.Second, Retries: rootRetries, Fault: fault, CORS: cors, Headers: headers,
		Mirrors: []model.Mirror{mirror("m", 1), mirror("n", 2)},
	}
	given := model.Given{
		Timeout: true, Retries: true, Fault: true, CORS: true, Headers: true, Mirror: true, Mirrors: true,
		Rewrite: &model.Rewrite{URI: "/r"}, HeaderAuthority: "h",
	}
	forwards := []model.Destination{to("d")}
	redirect := &model.Redirect{URI: "/x"}
	direct := &model.DirectResponse{Status: 418}
	for name, c := range map[string]struct {
		root       *model.HTTPRoute
		rootGiven  model.Given
		own        model.HTTPRoute
		given      model.Given
		want       model.HTTPRoute
		wantMirror bool
	}{
		"all": {
			full, given, model.HTTPRoute{Destinations: forwards}, model.Given{}, model.HTTPRoute{
				Destinations: forwards, Timeout: time.Second, Retries: rootRetries, Fault: fault, CORS: cors,
				Headers: headers, Mirrors: full.Mirrors, Rewrite: &model.Rewrite{URI: "/r", Authority: "h"},
			}, true,
		},
		"nothing": {
			full, given,
			model.HTTPRoute{Destinations: forwards, Retries: ownRetries, Mirrors: []model.Mirror{mirror("o", 3)}},
			model.Given{
				Timeout: true, Retries: true, Fault: true, CORS: true, Headers: true, Mirror: true,
				Rewrite: &model.Rewrite{Authority: "o"},
			},
			model.HTTPRoute{
				Destinations: forwards, Retries: ownRetries, Rewrite: &model.Rewrite{Authority: "o"},
				Mirrors: []model.Mirror{mirror("o", 3), mirror("n", 2)},
			}, false,
		},
		"the share of a mirror": {
			&model.HTTPRoute{}, model.Given{MirrorPercent: share(9)},
			model.HTTPRoute{Destinations: forwards, Mirrors: []model.Mirror{mirror("o", 3)}}, model.Given{Mirror: true},
			model.HTTPRoute{Destinations: forwards, Mirrors: []model.Mirror{mirror("o", 9)}}, false,
		},
		"its own share": {
			full, given, model.HTTPRoute{Destinations: forwards}, model.Given{
				MirrorPercent: share(8), Timeout: true, Retries: true, Fault: true, CORS: true, Headers: true,
			}, model.HTTPRoute{
				Destinations: forwards, Mirrors: []model.Mirror{mirror("m", 8), mirror("n", 2)},
				Rewrite: &model.Rewrite{URI: "/r"},
			}, true,
		},
		"mirrors of its own": {
			full, model.Given{Mirror: true, Mirrors: true},
			model.HTTPRoute{Destinations: forwards, Mirrors: []model.Mirror{mirror("o", 3)}},
			model.Given{Mirrors: true, Timeout: true, Retries: true, Fault: true, CORS: true, Headers: true},
			model.HTTPRoute{Destinations: forwards, Mirrors: []model.Mirror{mirror("m", 1), mirror("o", 3)}}, false,
		},
		"the host of a destination": {
			&model.HTTPRoute{}, model.Given{Rewrite: &model.Rewrite{URI: "/r", Authority: "r"}},
			model.HTTPRoute{Destinations: forwards, Rewrite: &model.Rewrite{Authority: "o"}},
			model.Given{DestinationAuthority: "o"},
			model.HTTPRoute{Destinations: forwards, Rewrite: &model.Rewrite{URI: "/r", Authority: "o"}}, false,
		},
		"a redirect": {
			full, given, model.HTTPRoute{Redirect: redirect}, model.Given{},
			model.HTTPRoute{Redirect: redirect, CORS: cors, Headers: headers}, false,
		},
		"a direct response of the root": {
			&model.HTTPRoute{Direct: direct}, model.Given{}, model.HTTPRoute{Destinations: forwards, Timeout: 1},
			model.Given{Timeout: true}, model.HTTPRoute{Direct: direct}, false,
		},
		"a redirect before a direct response": {
			&model.HTTPRoute{Direct: direct}, model.Given{}, model.HTTPRoute{Redirect: redirect}, model.Given{},
			model.HTTPRoute{Redirect: redirect}, false,
		},
		"a mistake": {
			full, given, model.HTTPRoute{Broken: "why"}, model.Given{}, model.HTTPRoute{Broken: "why"}, false,
		},
	} {
		root := rootOf("a", "r", model.ObjectName{Namespace: "b", Name: "x"})
		root.HTTP[0], root.Delegations[0].Given = c.root, c.rootGiven
		delegate := delegateOf("b", "x", &c.own)
		delegate.Given[0] = c.given
		s, _ := NewWriter().Apply([]Update{routesUpdate(root), routesUpdate(delegate)})
		got := s.VirtualService("a", "r")
		require.True(t, model.Equal(&c.want, got.HTTP[0]), "%s: %+v", name, got.HTTP[0])
		require.Equal(t, []model.RouteOrigin{
			{Delegate: model.ObjectName{Namespace: "b", Name: "x"}, RootMirrors: c.wantMirror}, {Route: 1},
		}, s.Delegation("a", "r").Routes, name)
	}
}

// What two objects of a megabyte come to is bounded: a delegation of too many matches is closed.
func TestADelegationOfTooManyMatchesIsClosed(t *testing.T) {
	root := rootOf("a", "r", model.ObjectName{Namespace: "b", Name: "x"})
	many := make([]*model.HTTPMatch, 101)
	for i := range many {
		many[i] = &model.HTTPMatch{}
	}
	root.HTTP[0] = &model.HTTPRoute{Matches: many}
	s, _ := NewWriter().Apply([]Update{
		routesUpdate(root), routesUpdate(delegateOf("b", "x", &model.HTTPRoute{Matches: many})),
	})
	require.Equal(t, "503 last.test", destinationsInOrder(s.VirtualService("a", "r")))
	require.Len(t, s.VirtualService("a", "r").HTTP[0].Matches, 101)
	require.True(t, s.Delegation("a", "r").Mistakes[0].Closed)
}

// An Ingress of the same name as a delegate is no VirtualService.
func TestARootNamesNoIngress(t *testing.T) {
	v := plainRoutes("b", "x")
	v.Kind, v.Owner, v.Name = kinds.Ingress, "x", "x~a.test"
	s, _ := NewWriter().Apply([]Update{
		{Key: v.Key(), Objects: []model.Object{v}},
		routesUpdate(rootOf("a", "r", model.ObjectName{Namespace: "b", Name: "x"})),
	})
	require.Equal(t, "there is no such VirtualService", s.Delegation("a", "r").Mistakes[0].Message)
}
