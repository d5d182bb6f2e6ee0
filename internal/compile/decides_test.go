package compile_test

import (
	"fmt"
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/translate/evaluate"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestConfigurationDecidesAsDocumented: what a sidecar gets decides about random calls as the
// interpreter of Istio's documentation does, by policies of the root namespace, of its own and of
// another one, with and without selectors, and by PeerAuthentications.
func TestConfigurationDecidesAsDocumented(t *testing.T) {
	draws.AtLeast(t, 100)
	outcomes := map[policy.Outcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := drawPolicedMesh(t)
		config := m.compiled(t)
		for range 4 {
			c := drawCallTo(t)
			want := policy.Check(m.workload(c.Port), c)
			got, err := config.Decide(c)
			require.NoError(t, err)
			require.Equal(t, want.Outcome, got.Outcome,
				"%+v\n%s %v\n%s %v\n%v", c, want, want.Policies, got, got.Policies, got.Notes)
			outcomes[want.Outcome]++
		}
	})
	require.NotZero(t, outcomes[policy.Allowed])
	require.NotZero(t, outcomes[policy.Denied])
	require.NotZero(t, outcomes[policy.Asks])
}

// policedMesh is a workload of the namespace shop, and policies that may be for it.
type policedMesh struct {
	snapshot *state.Snapshot
	delta    *state.Delta
	proxy    scope.Proxy
	labels   model.Labels
	tokens   []*model.RequestAuthentication
}

var policedNamespaces = []string{"istio-system", "shop", "other"}

// policedService is that of the workload.
var policedService = &model.Service{
	Meta: model.Meta{Kind: kinds.Service, Namespace: "shop", Name: "web"}, Host: "web.shop.svc.cluster.local",
	Selector: model.LabelsOf(map[string]string{"app": "web"}), ExportTo: model.Exports{All: true},
	Ports: []model.ServicePort{
		{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080},
		{Name: "tcp", Port: 9000, Protocol: model.TCP, Target: 9000},
	},
}

var policedAuthorizer = &model.ExtAuthz{Name: "opa", Host: "opa.test", Port: 80}

// newPolicedMesh has the workload, and nothing else yet.
func newPolicedMesh() policedMesh {
	web := model.LabelsOf(map[string]string{"app": "web", "version": "v1"})
	return policedMesh{labels: web, proxy: scope.Proxy{
		Address: "10.0.0.9", Namespace: "shop", Name: "web-0", Labels: web,
		Settings: scope.Settings{Intercepted: true, Agent: true},
	}}
}

func drawPolicedMesh(t *rapid.T) policedMesh {
	m, objects := newPolicedMesh(), []model.Object{policedService}
	m.proxy.Settings.FiltersApart = rapid.Bool().Draw(t, "filters apart")
	for i := range rapid.IntRange(1, 4).Draw(t, "policies") {
		objects = append(objects, drawPolicyOf(t, i))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "modes") {
		objects = append(objects, drawPeerAuthentication(t, i))
	}
	var updates []state.Update
	for _, o := range objects {
		updates = append(updates, state.Update{Key: keyed(o), Objects: []model.Object{o}})
	}
	m.snapshot, m.delta = state.NewWriter().Apply(updates)
	return m
}

// keyed is the key of an object.
func keyed(o model.Object) source.Key {
	m, _ := o.(interface{ Key() source.Key })
	return m.Key()
}

func drawSelector(t *rapid.T) model.Labels {
	return rapid.SampledFrom([]model.Labels{
		{}, model.LabelsOf(map[string]string{"app": "web"}), model.LabelsOf(map[string]string{"app": "another"}),
		model.LabelsOf(map[string]string{"app": "web", "version": "v1"}),
	}).Draw(t, "selector")
}

func drawPolicyOf(t *rapid.T, i int) *model.AuthorizationPolicy {
	one := func(of model.AuthorizationAttribute, values ...string) model.AuthorizationConditions {
		return model.AuthorizationConditions{{Attribute: of, Values: values}}
	}
	conditions := []model.AuthorizationConditions{
		nil, one(model.SourceNamespace, "shop"), one(model.SourcePrincipal, "*"), one(model.RequestPath, "/a"),
		one(model.RequestMethod, "GET"), one(model.DestinationPort, "8080"), one(model.SourceIP, "10.0.0.0/8"),
		{{Attribute: model.SourcePrincipal, NotValues: []string{"*"}}},
	}
	p := &model.AuthorizationPolicy{
		Meta: model.Meta{
			Kind: kinds.AuthorizationPolicy, Name: fmt.Sprint("p", i),
			Namespace: rapid.SampledFrom(policedNamespaces).Draw(t, "namespace"),
		},
		Selection: model.Selection{Selector: drawSelector(t)},
		Action: rapid.SampledFrom([]model.AuthorizationAction{
			model.AuthorizationAllow, model.AuthorizationAllow, model.AuthorizationDeny, model.AuthorizationDeny,
			model.AuthorizationCustom,
		}).Draw(t, "action"),
		DryRun: rapid.IntRange(0, 7).Draw(t, "dry run") == 0,
		Rules:  &model.AuthorizationRules{},
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "rules") {
		when := rapid.SampledFrom(conditions).Draw(t, "when")
		p.Rules.List = append(p.Rules.List, model.AuthorizationRule{Index: i, When: when})
	}
	if p.Action == model.AuthorizationCustom {
		p.Provider = policedAuthorizer
	}
	return p
}

func drawPeerAuthentication(t *rapid.T, i int) *model.PeerAuthentication {
	modes := rapid.SampledFrom([]model.MTLSMode{
		model.MTLSUnset, model.MTLSPermissive, model.MTLSStrict, model.MTLSDisable,
	})
	p := &model.PeerAuthentication{
		Meta: model.Meta{
			Kind: kinds.PeerAuthentication, Name: fmt.Sprint("m", i),
			Namespace: rapid.SampledFrom(policedNamespaces).Draw(t, "namespace"),
		},
		Selector: drawSelector(t), Mode: modes.Draw(t, "mode"),
	}
	if !p.Selector.IsEmpty() && rapid.Bool().Draw(t, "a port") {
		p.Ports = []model.PortMTLS{{Port: 8080, Mode: modes.Draw(t, "mode of the port")}}
	}
	return p
}

// drawCallTo draws a request to the port of HTTP, or bytes to that of TCP or to one that nobody
// names.
func drawCallTo(t *rapid.T) policy.Call {
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "value") }
	c := policy.Call{
		Identity:    one("", "spiffe://cluster.local/ns/shop/sa/a", "spiffe://cluster.local/ns/other/sa/b"),
		Source:      netip.MustParseAddr(one("10.0.0.1", "192.168.1.1")),
		Destination: netip.MustParseAddr("10.0.0.9"),
		Port:        rapid.SampledFrom([]uint16{8080, 8080, 9000, 7777}).Draw(t, "port"),
	}
	c.Remote, c.TCP = c.Source, c.Port != 8080
	if !c.TCP {
		c.Host, c.Method, c.Path = "web", one("GET", "POST"), one("/a", "/b", "/b/../a")
	}
	return c
}

func (m policedMesh) workload(port uint16) policy.Workload {
	w := policy.Workload{Namespace: "shop", Labels: m.labels, Mesh: *m.snapshot.Mesh}
	for p := range m.snapshot.AllAuthorizationPolicies() {
		w.Policies = append(w.Policies, p)
	}
	w.Tokens = m.tokens
	w.HasKeys = func(string) bool { return false } // nobody fetches any
	w.MTLS, w.MTLSPolicy = m.snapshot.MTLSFor("shop", m.labels).Mode(port)
	return w
}

// compiled is the configuration of the workload's sidecar.
func (m policedMesh) compiled(t require.TestingT) (config evaluate.Config) {
	compiler := compile.NewCompiler(compile.Refusals{
		Endpoint: func(e model.Endpoint, err error) { t.Errorf("%v: %v", e, err) },
		Resource: func(name string, err error) { t.Errorf("%s: %v", name, err) },
	})
	compiler.Advance(m.delta, func(compile.Step) {})
	compiler.Join(compile.Facts{Proxy: m.proxy}, func(_ *compile.Member, placed compile.Placement) {
		set := placed.State.Sets()[resource.Listener]
		for _, name := range set.Names() {
			l := &listenerv3.Listener{}
			require.NoError(t, proto.Unmarshal(placed.Overlay.Body(resource.Listener, set.Get(name)), l))
			config.Listeners = append(config.Listeners, l)
		}
		config.Extensions = map[string]*anypb.Any{}
		filters := placed.State.Sets()[resource.Filter]
		for _, name := range filters.Names() {
			f := &corev3.TypedExtensionConfig{}
			require.NoError(t, proto.Unmarshal(placed.Overlay.Body(resource.Filter, filters.Get(name)), f))
			config.Extensions[name] = f.GetTypedConfig()
		}
	})
	return config
}
