package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

const (
	aSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}
`
	aDaemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log, namespace: default}
spec: {selector: {matchLabels: {app: log}}, template: {metadata: {labels: {app: log}}}}
`
	aCronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: log, namespace: default}
`
	aGatewayService = `
apiVersion: v1
kind: Service
metadata: {name: gw, namespace: default}
spec: {selector: {app: gw}, ports: [{name: http, port: 80, targetPort: 8080}]}
`
)

// policyFor is a policy that denies nothing, for workloads with a label.
func policyFor(namespace, app string) string {
	return `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: ` + namespace + `}
spec: {selector: {matchLabels: {app: ` + app + `}}, action: AUDIT}
`
}

// sidecarFor is a Sidecar for workloads with a label.
func sidecarFor(app string) string {
	return `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: s, namespace: default}
spec: {workloadSelector: {labels: {app: ` + app + `}}}
`
}

// servingAt is a Gateway of the workloads of aDeployment.
func servingAt(port string) string {
	return `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  selector: {app: gw}
  servers: [{port: {number: ` + port + `, name: http, protocol: HTTP}, hosts: ["*"]}]
`
}

// TestAnalyzeTellsWhatSelectsNothing: what is for no workload of the manifests, unless they hold
// none, or some whose labels are not read.
func TestAnalyzeTellsWhatSelectsNothing(t *testing.T) {
	for _, c := range []struct {
		name      string
		manifests []string
		code      command.ExitCode
		says      string
	}{
		{"a workload", []string{aDeployment, sidecarFor("gw")}, 0, ""},
		{"no workload", []string{aDeployment, sidecarFor("none")}, exitWarnings,
			`Sidecar default/s: spec.workloadSelector.labels = "app=none": selects no workload`},
		{"a workload of another namespace", []string{aDeployment, policyFor("other", "none")}, 0, ""},
		{"none of all namespaces", []string{aDeployment, policyFor("istio-system", "none")}, exitWarnings,
			`AuthorizationPolicy istio-system/p: spec.selector.matchLabels = "app=none": selects no workload`},
		{"one of all namespaces", []string{aDeployment, policyFor("istio-system", "gw")}, 0, ""},
		{"no workloads at all", []string{aService, sidecarFor("none")}, 0, ""},
		{"workloads that are not read", []string{aCronJob, aDeployment, sidecarFor("log")}, exitWarnings,
			"0 errors, 1 warning\n"},
		{"a DaemonSet", []string{aDaemonSet, aDeployment, sidecarFor("log")}, 0, ""},
		{"a StatefulSet", []string{aSet, sidecarFor("db")}, 0, ""},
		{"no pod of a StatefulSet", []string{aSet, sidecarFor("none")}, exitWarnings,
			`"app=none": selects no workload`},
	} {
		t.Run(c.name, func(t *testing.T) { requireAnalysis(t, c.code, c.says, c.manifests...) })
	}
}

// TestAnalyzeTellsPortsThatNoServiceHas: a server of a Gateway has a port of the Service or of its
// Pods, if there is a Service.
func TestAnalyzeTellsPortsThatNoServiceHas(t *testing.T) {
	for port, code := range map[string]command.ExitCode{"80": 0, "8080": 0, "19999": exitWarnings} {
		requireAnalysis(t, code,
			`Gateway default/gw: spec.servers[0].port.number = "19999": no Service of the gateway's Pods has this port`,
			aDeployment, aGatewayService, servingAt(port))
		requireAnalysis(t, 0, "", aDeployment, servingAt(port))
	}
}

// TestAnalyzeTellsHostsThatNobodyHas: of DestinationRules and Sidecars.
func TestAnalyzeTellsHostsThatNobodyHas(t *testing.T) {
	const says = "no Service or ServiceEntry has such a host"
	for host, code := range map[string]command.ExitCode{
		"a": 0, "a.default.svc.cluster.local": 0, `"*.svc.cluster.local"`: 0, "b": exitWarnings, "a.test": exitWarnings,
	} {
		requireAnalysis(t, code, "spec.host = ", aService, `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: r, namespace: default}
spec: {host: `+host+`, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
`)
	}
	for host, code := range map[string]command.ExitCode{
		"./*": 0, "other/*": 0, "./a.default.svc.cluster.local": 0, "*/a.default.svc.cluster.local": 0,
		"other/a.default.svc.cluster.local": exitWarnings, "./a": exitWarnings,
	} {
		requireAnalysis(t, code, says, aService, `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: s, namespace: default}
spec: {egress: [{hosts: ["`+host+`"]}]}
`)
	}
}

// TestAnalyzeTellsClaimsThatNobodyReads: a match by a claim needs a RequestAuthentication for the
// gateway's workloads.
func TestAnalyzeTellsClaimsThatNobodyReads(t *testing.T) {
	const routes = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: default}
spec:
  hosts: [v.test]
  gateways: [gw]
  http:
  - match: [{headers: {"@request.auth.claims.group": {exact: a}}}]
    route: [{destination: {host: a}}]
`
	tokensFor := func(namespace, app string) string {
		return `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: r, namespace: ` + namespace + `}
spec:
  selector: {matchLabels: {app: ` + app + `}}
  jwtRules: [{issuer: me, jwks: '{"keys": []}'}]
`
	}
	const says = `.headers["@request.auth.claims.group"]: no RequestAuthentication is for the workloads`
	for _, c := range []struct {
		tokens string
		told   bool
	}{
		{"", true}, {tokensFor("default", "gw"), false}, {tokensFor("istio-system", "gw"), false},
		{tokensFor("default", "other"), true}, {tokensFor("other", "gw"), true},
	} {
		out, _ := analyzed(t, nil, aService, aDeployment, servingAt("80"), routes, c.tokens)
		require.Equal(t, c.told, strings.Contains(out, says), "%s\n%s", c.tokens, out)
	}
}

// TestAnalyzeTellsPortsOfServicesInPolicies: policies see the port at which a workload is called.
func TestAnalyzeTellsPortsOfServicesInPolicies(t *testing.T) {
	authorization := func(port string) string {
		return `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: default}
spec: {action: AUDIT, rules: [{to: [{operation: {ports: ["` + port + `"]}}]}]}
`
	}
	modes := func(port string) string {
		return `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: p, namespace: default}
spec: {selector: {matchLabels: {app: gw}}, portLevelMtls: {` + port + `: {mode: STRICT}}}
`
	}
	for port, told := range map[string]bool{"80": true, "8080": false, "9090": false} {
		for _, policy := range []string{authorization(port), modes(port)} {
			out, _ := analyzed(t, nil, aDeployment, aGatewayService, policy)
			require.Equal(t, told, strings.Contains(out, "is the port of a Service, and no workload"), out)
			require.Equal(t, told, strings.Contains(out, "want 8080, the port of the workload"), out)
		}
	}
}
