package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
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
