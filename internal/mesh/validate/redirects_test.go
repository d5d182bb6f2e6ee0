package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// TestARedirectToHTTPSAtAPlaintextPortIsTold: the port of the request speaks no TLS, and nobody
// else has it.
func TestARedirectToHTTPSAtAPlaintextPortIsTold(t *testing.T) {
	c := newChecked()
	told := func(updates ...state.Update) []string {
		var lines []string
		for _, p := range c.apply(updates...) {
			if p.Object.Kind == kinds.VirtualService {
				lines = append(lines, p.Path+": "+p.Message)
			}
		}
		return lines
	}
	servers := func(all ...model.GatewayServer) state.Update {
		m := meta(kinds.Gateway, "default", "g")
		for i := range all {
			all[i].Protocol, all[i].Hosts = model.HTTP, []model.ScopedHost{{Namespace: "*", Host: "*"}}
		}
		return update(&model.Gateway{
			Meta: m, Selector: model.LabelsOf(map[string]string{"app": "g"}), Servers: all,
		}, m)
	}
	redirect := func(r model.Redirect, matches ...*model.HTTPMatch) state.Update {
		m := meta(kinds.VirtualService, "default", "v")
		return update(&model.VirtualService{
			Meta: m, Hosts: []model.Host{"x.test"}, Gateways: []string{"default/g"}, ExportTo: model.Exports{All: true},
			HTTP: []*model.HTTPRoute{{Matches: matches, Redirect: &r}},
		}, m)
	}
	secure := model.GatewayServer{Port: 8443, TLS: &model.ServerTLS{Mode: model.ServerSimple}}
	toRequestPort := model.Redirect{Scheme: "https", PortFromRequest: true}
	is := []string{"spec.http[0].redirect.derivePort: leads to https at a port that speaks no TLS: " +
		"8080 of Gateway default/g"}
	require.Equal(t, is, told(servers(model.GatewayServer{Port: 8080}, secure), redirect(toRequestPort)))
	require.Empty(t, told(redirect(toRequestPort, &model.HTTPMatch{Port: 8443})))
	require.Empty(t, told(redirect(model.Redirect{Scheme: "https", PortOfScheme: true})))
	require.Empty(t, told(redirect(model.Redirect{Scheme: "http", PortFromRequest: true})))
	require.Equal(t, is, told(redirect(toRequestPort)))
	require.Empty(t, told(servers(secure)))
}
