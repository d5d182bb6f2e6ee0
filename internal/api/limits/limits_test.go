package limits

import (
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// both has a limit of proxies and one of a server.
func both() Object {
	return Object{Namespace: "shop", Name: "a.b", Server: "limits.test", Spec: &ratelimit.Spec{
		Local: &ratelimit.Local{Limits: []ratelimit.LocalLimit{{
			Descriptor: ratelimit.Descriptor{Name: "x", By: []ratelimit.By{{Header: "X-User"}}},
			Requests:   2, Per: ratelimit.Day,
		}}},
		Global: &ratelimit.Global{
			Service: ratelimit.Service{Host: "limits.test", Port: 8081}, Domain: "shop", FailClosed: true,
			Descriptors: []ratelimit.Descriptor{{Name: "y", Match: &ratelimit.Match{Methods: []string{"GET"}}}},
		},
	}}
}

// Each filter is added in front of the one before it, so the local one comes first.
func TestTheServerIsAskedAboutWhatTheProxyLetsPass(t *testing.T) {
	var names []string
	for _, p := range Patches(both()) {
		require.Equal(t, model.BehindClass, p.Class)
		names = append(names, p.Value.Name)
	}
	require.Equal(t, []string{
		"lateen.ratelimit.shop.a.b.global", "lateen.ratelimit.shop.a.b.local",
		"lateen.ratelimit.shop.a.b.global", "lateen.ratelimit.shop.a.b.local",
	}, names)
}

// Envoy would refuse a filter that breaks a rule of its fields.
func TestFiltersKeepEnvoysRules(t *testing.T) {
	o := both()
	require.NoError(t, o.local().ValidateAll())
	require.NoError(t, o.global().ValidateAll())
}

func TestFiltersForRoutesAreTurnedOnByThem(t *testing.T) {
	o := both()
	o.OnGateways, o.Routes = true, []Route{{Owner: "a"}}
	all := Patches(o)
	require.Len(t, all, 3)
	for _, p := range all[:2] {
		f := &hcmv3.HttpFilter{}
		require.NoError(t, proto.Unmarshal([]byte(p.Value.Body), f))
		require.True(t, f.GetDisabled())
		require.Equal(t, model.GatewayContext, p.Context)
	}
	require.Equal(t, model.RouteMatch{OfRoute: true, Owner: "a"}, all[2].Route)
}

func TestShadowRefusesNothingWithoutAServer(t *testing.T) {
	o := both()
	require.True(t, o.global().GetFailureModeDeny())
	o.Spec.Mode = ratelimit.Shadow
	require.False(t, o.global().GetFailureModeDeny())
	require.Zero(t, o.global().GetFilterEnforced().GetDefaultValue().GetNumerator())
	require.Zero(t, o.local().GetFilterEnforced().GetDefaultValue().GetNumerator())
}

func TestWhatAnObjectSays(t *testing.T) {
	o := both()
	require.Equal(t, "2 per day by x-user; asks limits.test:8081 about y of some requests, closed without it", Says(o))
	o.Spec.Mode, o.Routes = ratelimit.Shadow, []Route{{}}
	require.Contains(t, Says(o), "; shadow mode; on some routes")
}

func TestTextsAreQuoted(t *testing.T) {
	require.Equal(t, `request.url_path == '/a\'b\\c'`, Condition(&ratelimit.Match{
		Paths: []ratelimit.StringMatch{{Exact: `/a'b\c`}},
	}))
}
