package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Of two sidecars that a rule selects one has proved that it may have Secrets. A change of the rule
// gives each what it may have, whichever class comes first. Random lives hardly ever bring both.
func TestWhoMayHaveSecretsTellsClassesApart(t *testing.T) {
	pod := func(name string) *model.Workload {
		return &model.Workload{Meta: aloneMeta(kinds.Pod, name), Labels: gatewayLabels, ServiceAccount: "sa"}
	}
	callsWith := func(sni string) model.Object {
		r := &model.DestinationRule{Meta: aloneMeta(kinds.DestinationRule, "r"), Host: "s.default.svc.cluster.local"}
		r.ExportTo, r.Selector = everywhere, gatewayLabels
		r.Policy = &model.TrafficPolicy{TLS: &model.ClientTLS{Mode: model.Simple, Credential: "c", SNI: sni}}
		return r
	}
	before := []model.Object{
		pod("trusted"), pod("stranger"), callsWith("a.com"),
		aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP}),
		&model.Credential{Meta: aloneMeta(kinds.Secret, "c"), Authorities: &model.Authorities{
			Certificates: model.NewSensitive("ca"),
		}},
	}
	account := map[string]string{"trusted": "sa"}
	join := func(c *Compiler, name string) (at Placement) {
		c.Join(Facts{Account: account[name], Proxy: scope.Proxy{
			Namespace: "default", Name: name, Settings: scope.Settings{Credentials: scope.AllCredentials},
		}}, func(_ *Member, p Placement) { at = p })
		return at
	}
	for _, order := range [][]string{{"trusted", "stranger"}, {"stranger", "trusted"}} {
		m := &meshOf{writer: state.NewWriter(), compiler: NewCompiler(refuseNothing(t))}
		m.apply(updatesOf(before)...)
		now := map[resource.ClassID]resource.State{}
		class := map[string]resource.ClassID{}
		for _, name := range order {
			p := join(m.compiler, name)
			now[p.Class], class[name] = p.State, p.Class
		}
		require.Len(t, now, 2)
		m.apply(updatesOf([]model.Object{callsWith("b.com")})...)
		require.NotEmpty(t, m.last.Changed)
		for _, changed := range m.last.Changed {
			now[changed.Class] = changed.State
		}
		for name, id := range class {
			fresh := &meshOf{writer: m.writer, compiler: NewCompiler(refuseNothing(t))}
			fresh.compiler.snapshot = m.writer.Snapshot()
			require.Equal(t, dump(join(fresh.compiler, name).State), dump(now[id]), "%s, of %v", name, order)
		}
	}
}
