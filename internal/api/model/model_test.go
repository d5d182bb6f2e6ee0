package model

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

func TestHostCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, host Host
		want          bool
	}{
		{"a.com", "a.com", true},
		{"a.com", "b.com", false},
		{"*", "a.com", true},
		{"*", "*.com", true},
		{"*.com", "a.com", true},
		{"*.com", "a.b.com", true},
		{"*.com", "com", false},
		{"*.a.com", "*.com", false},
		{"*.com", "*.a.com", true},
		{"*.a.com", "ba.com", false},
	} {
		require.Equal(t, c.want, c.pattern.Covers(c.host), "%s covers %s", c.pattern, c.host)
	}
}

func TestPatternsAreThoseThatCover(t *testing.T) {
	require.Equal(t, []Host{"a.b.c", "*.b.c", "*.c", "*"}, slices.Collect(Host("a.b.c").Patterns()))
	require.Equal(t, []Host{"*.b.c", "*.c", "*"}, slices.Collect(Host("*.b.c").Patterns()))
	require.Equal(t, []Host{"a", "*"}, slices.Collect(Host("a").Patterns()))
	require.Equal(t, []Host{"*"}, slices.Collect(Host("*").Patterns()))
	rapid.Check(t, func(t *rapid.T) {
		h := Host(rapid.StringMatching(`(\*\.)?[ab](\.[ab]){0,3}`).Draw(t, "host"))
		for p := range h.Patterns() {
			require.True(t, p.Covers(h), "%s of %s", p, h)
		}
	})
}

func TestResolveCompletesShortNames(t *testing.T) {
	require.Equal(t, Host("reviews.shop.svc.cluster.local"), Resolve("reviews", "shop", "cluster.local"))
	require.Equal(t, Host("reviews.shop"), Resolve("Reviews.shop", "other", "cluster.local"))
	require.Equal(t, Host("*"), Resolve("*", "shop", "cluster.local"))
}

func TestLabelsAreValues(t *testing.T) {
	a := LabelsOf(map[string]string{"app": "a", "version": "v1"})
	require.Equal(t, a, LabelsOf(map[string]string{"version": "v1", "app": "a"}))
	require.Equal(t, map[string]string{"app": "a", "version": "v1"}, a.Map())
	require.True(t, LabelsOf(map[string]string{"app": "a"}).Selects(a))
	require.False(t, LabelsOf(map[string]string{"app": "a", "tier": "x"}).Selects(a))
	require.True(t, Labels{}.Selects(a))
	v, ok := a.Get("version")
	require.True(t, ok)
	require.Equal(t, "v1", v)
	require.Equal(t, "app=a,version=v1", a.String())
}

func TestOlderObjectsComeFirstInTheTotalOrder(t *testing.T) {
	ordered := []Meta{
		{Kind: kinds.Service, Namespace: "z", Name: "z", Created: 9},
		{Kind: kinds.ServiceEntry, Namespace: "z", Name: "z", Created: 1},
		{Kind: kinds.ServiceEntry, Namespace: "a", Name: "b", Created: 2},
		{Kind: kinds.ServiceEntry, Namespace: "a", Name: "c", Created: 2, UID: "1"},
		{Kind: kinds.ServiceEntry, Namespace: "a", Name: "c", Created: 2, UID: "2"},
		{Kind: kinds.ServiceEntry, Namespace: "b", Name: "a", Created: 2},
	}
	shuffled := slices.Clone(ordered)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, func(a, b Meta) int { return a.Compare(&b) })
	require.Equal(t, ordered, shuffled)
}

func TestExportsDecideWhoSees(t *testing.T) {
	require.True(t, Exports{All: true}.Visible("a", "b"))
	require.True(t, Exports{Own: true}.Visible("a", "a"))
	require.False(t, Exports{Own: true}.Visible("a", "b"))
	require.False(t, Exports{None: true, All: true}.Visible("a", "a"))
	require.True(t, Exports{Namespaces: []string{"b"}}.Visible("a", "b"))
}

func TestEqualListsAreOne(t *testing.T) {
	in := NewInterner[string]()
	a, b := in.List([]string{"x", "y"}), in.List([]string{"x", "y"})
	require.Same(t, a, b)
	require.NotSame(t, a, in.List([]string{"y", "x"}))
	require.Nil(t, in.List(nil))
	require.Zero(t, (*List[string])(nil).Len())
	require.Equal(t, []string{"x", "y"}, slices.Collect(b.All()))
	runtime.KeepAlive(a)
}

func TestEqualValuesAreOne(t *testing.T) {
	p := NewPool[HTTPRoute]()
	route := func(name string) *HTTPRoute {
		return &HTTPRoute{Name: name, Matches: []*HTTPMatch{{URI: &StringMatch{Kind: Prefix, Value: "/a"}}}}
	}
	a := p.Canonical(route("r"))
	require.Same(t, a, p.Canonical(route("r")))
	require.NotSame(t, a, p.Canonical(route("s")))
	require.Nil(t, p.Canonical(nil))
}

// What could be mistaken for each other when written one after the other has different
// fingerprints.
func TestFingerprintsTellStructureApart(t *testing.T) {
	values := []any{
		&Header{"ab", "c"}, &Header{"a", "bc"},
		&HeaderOp{Remove: []string{"a"}}, &HeaderOp{Remove: []string{"a", ""}}, &HeaderOp{Add: []Header{{"a", ""}}},
		&HTTPMatch{}, &HTTPMatch{URI: &StringMatch{}}, &HTTPMatch{Scheme: &StringMatch{}},
	}
	seen := map[[16]byte]int{}
	for i, v := range values {
		before, known := seen[Fingerprint(v)]
		require.False(t, known, "%d and %d", before, i)
		seen[Fingerprint(v)] = i
		for j, other := range values {
			require.Equal(t, i == j, Equal(v, other), "%d and %d", i, j)
		}
	}
	require.True(t, Equal(&HeaderOp{Remove: []string{}}, &HeaderOp{}), "a list without items is none")
	require.Equal(t, Fingerprint(&HeaderOp{Remove: []string{}}), Fingerprint(&HeaderOp{}))
}

// Every model type can be fingerprinted: it holds no maps, functions or interfaces.
func TestModelTypesAreValues(t *testing.T) {
	for _, v := range []any{
		&Service{}, &Workload{}, &EndpointSlice{}, &Namespace{}, &Gateway{Servers: []GatewayServer{{}}}, &MeshConfig{},
		&Sidecar{Egress: []EgressListener{{}}, Ingress: []IngressListener{{}}, Outbound: &OutboundPolicy{}},
		&VirtualService{
			HTTP: []*HTTPRoute{{
				Matches: []*HTTPMatch{{}}, Redirect: &Redirect{}, Direct: &DirectResponse{}, Retries: &Retries{},
				Fault: &Fault{}, CORS: &CORS{}, Mirrors: []Mirror{{}}, Rewrite: &Rewrite{}, Headers: &HeaderOps{},
			}},
			TLS: []*TLSRoute{{Matches: []*L4Match{{}}}}, TCP: []*TCPRoute{{}},
		},
		&DestinationRule{Policy: &TrafficPolicy{
			LB: &LoadBalancer{Hash: &HashPolicy{}}, Pool: &ConnectionPool{Keepalive: &Keepalive{}},
			Outlier: &OutlierDetection{}, TLS: &ClientTLS{}, Ports: []PortPolicy{{}},
		}, Subsets: []Subset{{}}},
	} {
		require.NotPanics(t, func() { Fingerprint(v) }, "%T", v)
	}
}
