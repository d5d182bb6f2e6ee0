package inspect

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

const (
	aService = `
apiVersion: v1
kind: Service
metadata: {name: a, namespace: default}
spec: {ports: [{name: http, port: 80}]}
`
	aDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: gw, namespace: default}
spec:
  selector: {matchLabels: {app: gw}}
  template:
    metadata: {labels: {app: gw}}
    spec: {containers: [{name: gw, image: gw}]}
`
	aGateway = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  selector: {app: other}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]
`
	threeWorkers = `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "defaultConfig: {concurrency: 3}"}
`
	ninety = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ninety, namespace: default}
spec:
  hosts: [a]
  http: [{route: [{destination: {host: a}, weight: 20}, {destination: {host: a}, weight: 70}]}]
`
	badHost = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: lost, namespace: default}
spec:
  hosts: [a]
  http: [{route: [{destination: {host: nobody}}]}]
`
	theirPlugin = `
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: f, namespace: default}
spec: {url: "oci://a.test/f", imagePullSecret: pull}
`
	twoLabels = `
apiVersion: v1
kind: Namespace
metadata: {name: two, labels: {istio-injection: enabled, istio.io/rev: canary}}
`
	wildcard = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wild, namespace: default}
spec:
  hosts: ["*.example.com"]
  http: [{route: [{destination: {host: a}}]}]
`
	stalePatch = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: stale, namespace: default}
spec:
  configPatches:
  - {applyTo: CLUSTER, match: {cluster: {service: b.default.svc.cluster.local}},
     patch: {operation: MERGE, value: {connect_timeout: 3s}}}
`
	defaultMesh = `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    defaultConfig:
      discoveryAddress: istiod.istio-system.svc:15012
    defaultProviders:
      metrics: [prometheus]
    enablePrometheusMerge: true
    rootNamespace: istio-system
    trustDomain: cluster.local
  meshNetworks: "networks: {}"
`
)

// analyzed runs lateen analyze on manifests.
func analyzed(t *testing.T, args []string, manifests ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(strings.Join(manifests, "---")), 0o600))
	return output(t, nil, func(out *terminal.Writer, _ *remote.Remote) *cobra.Command { return Analyze(out) },
		append(args, dir)...)
}

// requireAnalysis wants an exit code and a text of manifests, and of those without fault that the
// analysis says so.
func requireAnalysis(t *testing.T, code command.ExitCode, says string, manifests ...string) {
	t.Helper()
	out, err := analyzed(t, nil, manifests...)
	if code == 0 {
		require.NoError(t, err, out)
		require.Equal(t, "0 errors, 0 warnings\n", out)
		return
	}
	require.Equal(t, code, err, out)
	require.Contains(t, out, says)
}

// TestAnalyze: what the conversion, the checks between objects, and precheck know, with an exit
// code for the worst of it.
func TestAnalyze(t *testing.T) {
	for _, c := range []struct {
		name      string
		manifests []string
		code      command.ExitCode
		says      string
	}{
		{"nothing", []string{aService}, 0, ""},
		{"default mesh", []string{aService, defaultMesh}, 0, ""},
		{
			"host", []string{aService, badHost}, exitErrors, "VirtualService default/lost: " +
				`spec.http[0].route[0].destination.host = "nobody.default.svc.cluster.local"`,
		},
		{"weights", []string{aService, ninety}, exitWarnings, `spec.http[0].route = "90"`},
		{"differs", []string{aService, wildcard}, exitWarnings, "istiod gives names below"},
		{"labels", []string{twoLabels}, exitErrors, "does not count beside istio-injection"},
		{"refused", []string{theirPlugin}, exitErrors, "WasmPlugin default/f: spec.imagePullSecret"},
		{
			"unserved", []string{aGateway, aDeployment}, exitWarnings,
			`Gateway default/gw: spec.selector = "app=other": selects none of the workloads`,
		},
		{
			"a patch that matches nothing", []string{aService, aDeployment, stalePatch}, exitWarnings,
			`a.yaml:16: EnvoyFilter default/stale: spec.configPatches[0].match.cluster.service = ` +
				`"b.default.svc.cluster.local": matches nothing that the proxies of the workloads it is for (1) get; ` +
				"want what they have, as a.default.svc.cluster.local",
		},
		{
			"a patch of a gateway", []string{
				strings.Replace(aGateway, "app: other", "app: gw", 1), aDeployment, strings.Replace(stalePatch,
					"CLUSTER, match: {cluster: {service: b.default.svc.cluster.local}}",
					"LISTENER, match: {context: GATEWAY, listener: {portNumber: 81}}", 1),
			}, exitWarnings, "it is for (1) get; want what they have, as 80",
		},
		{"a patch for no workload", []string{aService, stalePatch}, 0, ""},
		{"workers", []string{aService, threeWorkers}, 0, ""},
		{"no workloads", []string{aGateway}, 0, ""},
		{"unreadable", []string{"\nkind: Service\n  x: ["}, exitErrors, "a.yaml:"},
	} {
		t.Run(c.name, func(t *testing.T) { requireAnalysis(t, c.code, c.says, c.manifests...) })
	}
}

// attachedGateway is a Gateway of the Gateway API, and its listener.
func attachedGateway(name, class, spec string) string {
	return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ` + name + `, namespace: default}
spec:
  gatewayClassName: ` + class + `
  listeners: [{name: http, port: 80, protocol: HTTP}]
` + spec
}

// TestAnalyzeOfDeployedGateways: a Gateway that is deployed needs no Service in the manifests. One
// that cannot be deployed, or names a Service that is not there, does.
func TestAnalyzeOfDeployedGateways(t *testing.T) {
	const byHand = "  addresses: [{type: Hostname, value: gone}]\n"
	long := strings.Repeat("x", 60)
	deployed := attachedGateway("edge", "istio", "")
	for _, c := range []struct {
		name      string
		manifests []string
		code      command.ExitCode
		says      string
	}{
		{"istio", []string{deployed}, 0, ""},
		{"lateen", []string{attachedGateway("edge", "lateen", "")}, 0, ""},
		{"its name is too long", []string{attachedGateway(long, "istio", "")}, exitErrors,
			"AddressNotAssigned: " + long + "-istio is longer than 63 characters"},
		{"its Service is gone", []string{attachedGateway("edge", "istio", byHand)}, exitErrors,
			"AddressNotUsable: there is no Service with the host gone.default.svc.cluster.local"},
	} {
		t.Run(c.name, func(t *testing.T) { requireAnalysis(t, c.code, c.says, c.manifests...) })
	}
	t.Run("nobody deploys it", func(t *testing.T) {
		t.Setenv("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", "false")
		out, err := analyzed(t, nil, deployed)
		require.Equal(t, command.ExitCode(exitErrors), err, out)
		require.Contains(t, out, "AddressNotAssigned: no Service of the namespace selects "+
			"gateway.networking.k8s.io/gateway-name=edge")
	})
}

// TestAnalyzeOfNothingFails: nothing is wrong with no objects, but that is not what was asked.
func TestAnalyzeOfNothingFails(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte(aService), 0o600))
	code, text := console.Said(t, console.Root(Analyze(console.Plain(io.Discard))), "analyze", dir)
	require.Equal(t, command.ExitFailed, code, text)
	require.Contains(t, text, dir+": there is no object that a control plane reads; want manifests, in files that end "+
		"with .yaml, .yml or .json")
}

func TestAnalyzeTellsFieldsAsJSON(t *testing.T) {
	out, err := analyzed(t, []string{"-o", "json"}, aService, ninety)
	require.Equal(t, command.ExitCode(exitWarnings), err)
	var got []page.Problem
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got, 1)
	require.Equal(t, []string{"warning", "VirtualService", "default", "ninety", "spec.http[0].route", "90"},
		[]string{got[0].Severity, got[0].Kind, got[0].Namespace, got[0].Name, got[0].Path, got[0].Value})

	code, text := console.Said(t, console.Root(Analyze(console.Plain(io.Discard))), "analyze", "no/such/directory")
	require.Equal(t, command.ExitFailed, code)
	require.Contains(t, text, "want a directory of manifests, or the word cluster")
}
