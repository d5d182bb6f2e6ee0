package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// A host that was a listener's own, answered with 404, is now that of another listener of the port,
// answered with 421: its virtual host changes in nothing else.
func TestAHostBecomesThatOfAnotherListener(t *testing.T) {
	serving := func(own, other model.Host) []model.Object {
		g, _ := aloneGateway(443, model.HTTP)
		g.Kind = kinds.KubernetesGateway
		g.Servers[0].Hosts[0].Host, g.Servers[0].Misdirected = own, []model.Host{other}
		g.Servers[0].TLS = &model.ServerTLS{Mode: model.ServerSimple, Files: []model.CertificateFiles{{
			Chain: "/etc/chain.pem", Key: "/etc/key.pem",
		}}}
		return []model.Object{g}
	}
	requireFollows(t, gatewayProxy(), [][]model.Object{
		serving("a.com", "b.com"), serving("b.com", "a.com"), serving("a.com", "b.com"),
	})
}

// The server with TLS of a Gateway moves, which changes where the plaintext one redirects to.
func TestARedirectFollowsThePortOfHTTPS(t *testing.T) {
	serving := func(port uint16, host model.Host) []model.Object {
		g, v := aloneGateway(8080, model.HTTP)
		g.Servers[0].Redirect = true
		secured := securedGateway("gw", host).Servers[0]
		secured.Port = port
		g.Servers = append(g.Servers, secured)
		return []model.Object{g, v}
	}
	requireFollows(t, gatewayProxy(), [][]model.Object{
		serving(8443, "a.com"), serving(9443, "a.com"), serving(9443, "*.com"), serving(9443, "*.org"),
	})
}

// An Ingress starts to select the gateway, where another's server has its host's name. Its paths
// are that server's, and their service is visible from now on; then the other way round.
func TestPathsOfAnIngressFollowItsGatewayToTheServersOfOthers(t *testing.T) {
	backend := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	elsewhere, routes := aloneGateway(80, model.HTTP)
	routes.Kind, routes.Owner = kinds.Ingress, elsewhere.Name
	routes.HTTP = []*model.HTTPRoute{{Destinations: []model.Destination{{Host: backend.Host, PortName: "http"}}}}
	elsewhere.Kind, elsewhere.Selector = kinds.Ingress, model.LabelsOf(map[string]string{"app": "another"})
	here := *elsewhere
	here.Selector = gatewayLabels
	host := securedGateway("host", "a.com")
	host.Kind, host.Servers = kinds.Ingress, append(host.Servers, elsewhere.Servers...)

	serving := func(paths *model.Gateway) []state.Update {
		return append(
			updatesOf([]model.Object{backend, host}),
			state.Update{Key: paths.Key(), Objects: []model.Object{paths, routes}},
		)
	}
	requireFollowsUpdates(t, gatewayProxy(), [][]state.Update{serving(elsewhere), serving(&here), serving(elsewhere)})
}
