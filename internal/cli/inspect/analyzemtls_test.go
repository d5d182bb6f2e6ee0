package inspect

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// TestAnalyzeTellsCallsThatAllWorkloadsRefuse: a DestinationRule and the PeerAuthentications in
// force leave no call.
func TestAnalyzeTellsCallsThatAllWorkloadsRefuse(t *testing.T) {
	const says = `DestinationRule default/r: spec.trafficPolicy.tls.mode = `
	rule := func(policy string) string {
		return `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: default}
spec: {host: gw, trafficPolicy: ` + policy + `}
`
	}
	takes := func(namespace, spec string) string {
		return `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: p, namespace: ` + namespace + `}
spec: ` + spec + `
`
	}
	const plain, mutual = "{tls: {mode: DISABLE}}", "{tls: {mode: ISTIO_MUTUAL}}"
	const strict = "{mtls: {mode: STRICT}}"
	for _, c := range []struct {
		name      string
		conflicts bool
		manifests []string
	}{
		{"the namespace", true, []string{rule(plain), takes("default", strict)}},
		{"the mesh", true, []string{rule(plain), takes("istio-system", strict)}},
		{"the workload", true, []string{
			rule(plain), takes("default", "{selector: {matchLabels: {app: gw}}, mtls: {mode: STRICT}}"),
		}},
		{"plaintext alone", true, []string{rule(mutual), takes("default", "{mtls: {mode: DISABLE}}")}},
		{"both", false, []string{rule(plain), takes("default", "{mtls: {mode: PERMISSIVE}}")}},
		{"mutual TLS alone", false, []string{rule(mutual), takes("default", strict)}},
		{"another namespace", false, []string{rule(plain), takes("other", strict)}},
		{"a port", false, []string{
			rule(plain), takes("default",
				"{selector: {matchLabels: {app: gw}}, mtls: {mode: STRICT}, portLevelMtls: {81: {mode: PERMISSIVE}}}"),
		}},
		{"ports of the rule", false, []string{
			rule("{tls: {mode: DISABLE}, portLevelSettings: [{port: {number: 80}, tls: {mode: ISTIO_MUTUAL}}]}"),
			takes("default", strict),
		}},
		{"nobody", false, []string{rule(plain)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, text := command.ExitCode(exitWarnings), says
			if !c.conflicts {
				want, text = 0, ""
			}
			requireAnalysis(t, want, text, append(c.manifests, aDeployment, aGatewayService)...)
		})
	}
}
