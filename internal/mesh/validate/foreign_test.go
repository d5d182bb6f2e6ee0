package validate

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestRoutesForHostsOfOthersAreWarnedOf: who takes the calls of other namespaces to a host that is
// not his is told, and who may do so is not.
func TestRoutesForHostsOfOthersAreWarnedOf(t *testing.T) {
	c := newChecked()
	routes := func(namespace string, to model.Exports, gateways ...string) state.Update {
		m := meta(kinds.VirtualService, namespace, "r")
		return update(&model.VirtualService{
			Meta: m, Hosts: []model.Host{"a.default.svc.cluster.local"}, Gateways: gateways, ExportTo: to,
		}, m)
	}
	all := model.Exports{All: true}
	told := func(updates ...state.Update) []string {
		var messages []string
		for _, p := range c.apply(updates...) {
			if strings.Contains(p.Message, "is a host of") || strings.Contains(p.Message, "is the host of no") {
				messages = append(messages, p.Object.String()+": "+p.Value+" "+p.Message)
			}
		}
		return messages
	}
	const warned = "VirtualService evil/r: a.default.svc.cluster.local is a host of Service default/a; "
	require.Empty(t, told(routes("evil", all, model.Mesh)), "nobody has the host")
	require.Equal(t, []string{warned + "calls of all namespaces that it is exported to go by these routes"},
		told(kubeService("default", "a")))
	require.Empty(t, told(routes("evil", model.Exports{Own: true}, model.Mesh)), "for its own callers")
	require.Empty(t, told(routes("evil", all, "evil/gw")), "at its gateway")
	require.Len(t, told(routes("evil", model.Exports{Namespaces: []string{"shop"}}, model.Mesh)), 1)
	require.Empty(t, told(gone(routes("evil", all, model.Mesh))))
	require.Empty(t, told(routes("default", all, model.Mesh)), "the owner of the host")
	require.Empty(t, told(routes("istio-system", all, model.Mesh)), "the root namespace")

	mesh := model.DefaultMesh()
	mesh.OwnHostsOnly = true
	m := meta(kinds.ConfigMap, "istio-system", "istio")
	require.Len(t, told(routes("evil", all, model.Mesh)), 1)
	require.Equal(t, []string{warned + "these routes are in force for callers of namespace evil alone"},
		told(update(&mesh, m)))
	const nobodys = "a.default.svc.cluster.local is the host of no Service or ServiceEntry; " +
		"these routes are in force for callers of namespace "
	require.Equal(t, []string{
		"VirtualService default/r: " + nobodys + "default alone", "VirtualService evil/r: " + nobodys + "evil alone",
	}, told(gone(kubeService("default", "a"))))
}

// A wildcard takes the calls of other namespaces as a name does, whether a Service is there yet or
// not.
func TestWildcardsOverHostsOfOthersAreWarnedOf(t *testing.T) {
	for host, warned := range map[model.Host]bool{
		"*.shop.svc.cluster.local":   true,
		"*.svc.cluster.local":        true,
		"*.local":                    true,
		"*":                          true,
		"*.evil.svc.cluster.local":   false,
		"*.a.evil.svc.cluster.local": false,
		"*.example.com":              false,
	} {
		for _, of := range []string{"evil", "istio-system"} {
			c := newChecked()
			m := meta(kinds.VirtualService, of, "r")
			problems := c.apply(update(&model.VirtualService{
				Meta: m, Hosts: []model.Host{host}, Gateways: []string{model.Mesh}, ExportTo: model.Exports{All: true},
			}, m))
			told := slices.ContainsFunc(problems, func(p source.Problem) bool {
				return strings.Contains(p.Message, "covers the hosts of Services of other namespaces")
			})
			require.Equal(t, warned && of == "evil", told, "%s in %s", host, of)
		}
	}
}
