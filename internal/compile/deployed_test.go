package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
)

// A Gateway is deployed by another name than before: the workloads of before are none of its own,
// and lose its Secrets. Random lives hardly ever bring that.
func TestAGatewayAloneIsDeployedOtherwise(t *testing.T) {
	p := gatewayProxy()
	p.Settings.Credentials = scope.OwnGatewayCredentials
	of := deployedGateway
	requireFollows(t, p, [][]model.Object{of("istio"), of("lateen"), of("istio")})
}

// deployedGateway is a Gateway of the Gateway API of a class, with a certificate, and the Pod that
// was deployed for it with the class istio.
func deployedGateway(class string) []model.Object {
	ok := func(reason string) model.Condition { return model.Condition{Status: true, Reason: reason} }
	g := &model.KubernetesGateway{
		Meta: aloneMeta(kinds.KubernetesGateway, "gw"), Class: class, Accepted: ok("Accepted"),
		Listeners: []model.Listener{{
			Name: "https", Port: 8443, Protocol: model.HTTP, Host: "*", Kinds: []kinds.Kind{kinds.HTTPRoute},
			Accepted: ok("Accepted"), ResolvedRefs: ok("ResolvedRefs"),
			TLS:     &model.ServerTLS{Mode: model.ServerSimple},
			Secrets: []model.ObjectName{{Namespace: "default", Name: "c"}},
		}},
	}
	g.UID = "u"
	pair := &model.KeyPair{Chain: model.NewSensitive("chain"), Key: model.NewSensitive("key")}
	return []model.Object{g, gatewayPod(), &model.Credential{Meta: aloneMeta(kinds.Secret, "c"), Pair: pair}}
}
