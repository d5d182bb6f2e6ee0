package validate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestPoliciesOfGatewaysThatTheyDoNotReachAreReported: as Gateways, their Services and policies
// come, change and go.
func TestPoliciesOfGatewaysThatTheyDoNotReachAreReported(t *testing.T) {
	c := newChecked()
	service := func(label string) state.Update {
		m := meta(kinds.Service, "default", "s")
		return update(&model.Service{
			Meta: m, Host: "s.default.svc.cluster.local", Selector: model.LabelsOf(map[string]string{label: "g"}),
			Ports:    []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP}},
			ExportTo: model.Exports{All: true},
		}, m)
	}
	gateway := func(address model.Host) state.Update {
		m := meta(kinds.KubernetesGateway, "default", "g")
		ok := model.Condition{Status: true}
		listener := model.Listener{
			Name: "http", Port: 80, Protocol: model.HTTP, Host: "*", Accepted: ok, ResolvedRefs: ok,
		}
		return update(&model.KubernetesGateway{
			Meta: m, Class: "istio", Service: address, Accepted: ok, Listeners: []model.Listener{listener},
		}, m)
	}
	ofPolicies := func(problems []source.Problem) (messages []string) {
		for _, p := range problems {
			if p.Path == "spec.targetRefs" {
				messages = append(messages, string(p.Object.Kind)+": "+p.Message)
			}
		}
		return messages
	}
	selection := model.Selection{Gateways: []string{"g"}}
	policy, tokens := meta(kinds.AuthorizationPolicy, "default", "p"), meta(kinds.RequestAuthentication, "default", "t")
	const none = ": there is no such Gateway in the namespace that Lateen serves"
	const closed = ", so that the Gateway stays closed"
	const manual = ": the Gateway is served by the workloads of s.default.svc.cluster.local; the policy is for " +
		"those of its own namespace with the label gateway.networking.k8s.io/gateway-name=g alone" + closed

	both := []state.Update{
		update(&model.AuthorizationPolicy{Meta: policy, Selection: selection}, policy),
		update(&model.RequestAuthentication{Meta: tokens, Selection: selection}, tokens),
	}
	require.Equal(t, []string{"AuthorizationPolicy" + none, "RequestAuthentication" + none},
		ofPolicies(c.apply(both...)))
	require.Empty(t, ofPolicies(c.apply(gateway(""))))
	at := gateway("s.default.svc.cluster.local")
	require.Equal(t, []string{"AuthorizationPolicy" + manual, "RequestAuthentication" + manual},
		ofPolicies(c.apply(at, service("app"))))
	require.Empty(t, ofPolicies(c.apply(service(model.GatewayNameLabel))))
	require.Len(t, ofPolicies(c.apply(service("app"))), 2)
	dry := update(&model.AuthorizationPolicy{Meta: policy, Selection: selection, DryRun: true}, policy)
	require.Contains(t, ofPolicies(c.apply(dry)), "AuthorizationPolicy"+strings.TrimSuffix(manual, closed),
		"what decides nothing closes nothing")
	require.Len(t, ofPolicies(c.apply(gone(both[1]))), 1)
	require.Equal(t, []string{"AuthorizationPolicy" + none}, ofPolicies(c.apply(gone(at))))
	require.Empty(t, ofPolicies(c.apply(gone(both[0]))))
}

// TestTelemetryOfAGatewayThatIsNotThereIsReported: one that decides nothing, so as a warning.
func TestTelemetryOfAGatewayThatIsNotThereIsReported(t *testing.T) {
	c := newChecked()
	m, g := meta(kinds.Telemetry, "default", "t"), meta(kinds.KubernetesGateway, "default", "g")
	problems := c.apply(update(&model.Telemetry{Meta: m, Selection: model.Selection{Gateways: []string{"g"}}}, m))
	require.Len(t, problems, 1)
	require.Equal(t, source.Warning, problems[0].Severity)
	require.Equal(t, "spec.targetRefs", problems[0].Path)
	require.Equal(t, "g", problems[0].Value)
	problems = c.apply(update(&model.KubernetesGateway{Meta: g, Class: "istio"}, g))
	require.Empty(t, problems)
}
