package inspect

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/mesh/census"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// TestAdviseSidecars puts a mesh in which everybody sees everything, and checks that what is
// promised of Sidecars is what they do.
func TestAdviseSidecars(t *testing.T) {
	const namespaces, services = 8, 20
	m := callingMesh(t, namespaces, services)
	reached := m.pushed(namespaces, services, 81)
	sizes := func() (sum float64) {
		report, err := statusOf(m.ctx, []remote.Endpoint{remote.AtAddress(m.monitoring)})
		require.NoError(t, err)
		for _, p := range report.Proxies {
			sum += float64(p.ConfigBytes)
		}
		return sum / float64(len(report.Proxies))
	}
	before := sizes()

	report := m.advised("--apply", "--yes", m.directory)
	found := findingOf(t, report, "sidecar")
	require.True(t, found.Remedy.Automatic)
	require.Len(t, report.Findings, 1, "%+v", report.Findings)
	promised := effectOf(t, found, "proxies that a change of a service reaches")
	require.InDelta(t, reached, promised.Before, 0.01)
	m.await("a Sidecar in each namespace", func() bool {
		scoped := 0
		for i := range namespaces {
			for range m.pipeline.Snapshot().Sidecars(fmt.Sprintf("ns-%d", i)) {
				scoped++
			}
		}
		return scoped == namespaces
	})

	clusters := effectOf(t, found, "clusters of a proxy")
	mean := func() float64 { return float64(m.clusters("")) / float64(len(m.all)) }
	require.InEpsilon(t, clusters.After, mean(), 0.05)
	size := effectOf(t, found, "configuration of a proxy")
	require.InEpsilon(t, size.Before, before, 0.05)
	require.InEpsilon(t, size.After, sizes(), 0.35, "from %v", before)
	require.InEpsilon(t, promised.After, m.pushed(namespaces, services, 82), 0.1)
	require.Empty(t, m.advised().Findings, "the advice is followed")
}

// TestAdviseDNS: lookups are those of the names that sidecars hold, before and after.
func TestAdviseDNS(t *testing.T) {
	const namespaces, entries = 8, 200
	m := callingMesh(t, namespaces, 8)
	entry := func(export string) string {
		var text strings.Builder
		for i := range entries {
			fmt.Fprintf(&text, "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"+
				"metadata: {name: ext-%d, namespace: ns-0}\nspec: {hosts: [ext-%d.example.com], exportTo: [%q], "+
				"resolution: DNS, location: MESH_EXTERNAL, ports: [{name: tcp, number: 443, protocol: TCP}]}\n---\n",
				i, i, export)
		}
		return text.String()
	}
	m.write("entries.yaml", entry("*"))
	m.connect("ns-1", 14, false)
	m.await("names at all sidecars", func() bool { return m.clusters("ext-") == entries*len(m.all) })
	lookups := effectOf(t, findingOf(t, m.advised(), "dns"), "DNS lookups")
	require.InDelta(t, m.clusters("ext-"), lookups.Before, 0.1)
	require.Zero(t, lookups.After, "nobody calls them")

	m.write("entries.yaml", entry("~"))
	m.await("no names", func() bool { return m.clusters("ext-") == 0 })
	require.Equal(t, -1, slices.IndexFunc(m.advised().Findings, func(f advise.Finding) bool { return f.Rule == "dns" }))
}

// TestAdviseGatewayFilter: a gateway with the clusters of all services, and then with those of its
// routes.
func TestAdviseGatewayFilter(t *testing.T) {
	directory := t.TempDir()
	text := adviceServices("shop", 80, 0) + `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: shop}
spec: {selector: {app: shop}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: ["*"], gateways: [web], http: [{route: [{destination: {host: svc-3}}]}]}
`
	require.NoError(t, os.WriteFile(filepath.Join(directory, "shop.yaml"), []byte(text), 0o600))
	const name = "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG"
	m := startAdviceMesh(t, directory, map[string]string{name: "false"})
	m.connect("shop", 1, true)
	m.await("a gateway in sync", func() bool { return m.clusters("svc-3.") > 0 })
	found := findingOf(t, m.advised(), "gateway-filter")
	promised := effectOf(t, found, "clusters of a gateway")
	require.InDelta(t, m.all[0].Holds(sidecar.Cluster), promised.Before, 0.1)

	m = startAdviceMesh(t, directory, found.Remedy.Variables)
	m.connect("shop", 1, true)
	m.await("a gateway in sync", func() bool { return m.clusters("svc-3.") > 0 })
	require.InDelta(t, promised.After, m.clusters("outbound|"), 0.1)
	require.Empty(t, m.advised().Findings)
}

// TestAdviseBalance: all sidecars are at one of two replicas, until they connect anew.
func TestAdviseBalance(t *testing.T) {
	directory := t.TempDir()
	text := adviceServices("shop", 3, 0)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "shop.yaml"), []byte(text), 0o600))
	a, b := startAdviceMesh(t, directory, nil), startAdviceMesh(t, directory, nil)
	a.connect("shop", 30, false)
	a.await("all sidecars in sync", func() bool { return a.clusters("svc-0.") > 0 })
	ask := func() advise.Report {
		f, facts := adviseFlags{sinceStart: true}, &advise.Facts{}
		endpoints := []remote.Endpoint{remote.AtAddress(a.monitoring), remote.AtAddress(b.monitoring)}
		_, err := f.live(t.Context(), console.Plain(io.Discard), endpoints, facts)
		require.NoError(t, err)
		model, err := advise.StoredModel()
		require.NoError(t, err)
		return advise.Advise(facts, model)
	}
	most := effectOf(t, findingOf(t, ask(), "balance"), "proxies of the fullest replica")
	require.InDelta(t, 30, most.Before, 0.1)

	for _, s := range a.all[15:] { // as when connections end by age
		s.Stop()
	}
	b.connect("shop", 15, false)
	b.await("half of the sidecars in sync", func() bool { return b.clusters("svc-0.") > 0 })
	a.all = a.all[:15]
	a.await("the other half is gone", func() bool { return len(a.pipeline.Clients()) == 15 })
	require.InDelta(t, most.After, float64(len(b.pipeline.Clients())), 0.1)
	require.Empty(t, ask().Findings)
}

// TestAdviseLeavesAHealthyMeshAlone: exit code 0 and nothing to say.
func TestAdviseLeavesAHealthyMeshAlone(t *testing.T) {
	m := callingMesh(t, 3, 5)
	file := filepath.Join(t.TempDir(), "lateen.prom")
	report := m.advised("--metrics", file)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, report.Metrics(), string(written))
	require.Empty(t, report.Findings)
	require.Equal(t, advise.NoFactor, report.Bottleneck.Factor)
	for _, s := range report.Signals {
		require.Equal(t, advise.OK, s.State, "%+v", s)
	}
}

// TestAdviseAsksBeforeItApplies, and says no where it is not told otherwise.
func TestAdviseAsksBeforeItApplies(t *testing.T) {
	directory := t.TempDir()
	found := advise.Finding{Rule: "sidecar", Remedy: advise.Remedy{Manifests: "kind: Sidecar\n", Automatic: true}}
	for answer, want := range map[string]int{"": 0, "n\n": 0, "y\n": 1, "Yes\n": 1} {
		f := adviseFlags{objects: directory}
		cmd := &cobra.Command{}
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetContext(t.Context())
		var out strings.Builder
		require.NoError(t, f.applyAll(cmd, console.Plain(&out), []advise.Finding{found}))
		files, err := filepath.Glob(filepath.Join(directory, "*"))
		require.NoError(t, err)
		require.Len(t, files, want, answer)
		require.Contains(t, out.String(), "apply sidecar? [y/N]")
		for _, file := range files {
			require.NoError(t, os.Remove(file))
		}
	}
	for _, name := range []string{"advice-sidecar.yaml", "advice-sidecar-2.yaml"} {
		path, err := writeAdvice(directory, found)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(directory, name), path)
	}
}

// TestAdviseReadsManifests alone, if no control plane answers.
func TestAdviseReadsManifests(t *testing.T) {
	directory := t.TempDir()
	for i := range 8 {
		name := fmt.Sprintf("ns-%d", i)
		text := adviceServices(name, 20, 0) + advicePod(name, fmt.Sprintf("127.66.2.%d", i+1))
		require.NoError(t, os.WriteFile(filepath.Join(directory, name+".yaml"), []byte(text), 0o600))
	}
	f := adviseFlags{objects: directory, remote: &remote.Remote{Namespace: "istio-system"}}
	c, err := f.readCensus(t.Context())
	require.NoError(t, err)
	require.Len(t, c.Namespaces, 8)
	require.Equal(t, 160, c.Namespaces[0].SeenPorts)
	f.objects = filepath.Join(directory, "missing")
	_, err = f.readCensus(t.Context())
	require.ErrorIs(t, err, errNoDirectory)
}

func TestExcludeNamespacesKeepsSelectors(t *testing.T) {
	text, err := excludeNamespaces("accessLogFile: /dev/stdout\ndiscoverySelectors:\n- matchLabels: {env: prod}\n",
		[]string{"a", "b"})
	require.NoError(t, err)
	require.Equal(t, `accessLogFile: /dev/stdout
discoverySelectors:
- matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
    - a
    - b
  matchLabels:
    env: prod
`, text)
	_, err = excludeNamespaces("discoverySelectors: [x]", []string{"a"})
	require.ErrorContains(t, err, "want selectors of labels")
}

// TestAdvisedManifestsAreSound: lateen analyze has nothing against them.
func TestAdvisedManifestsAreSound(t *testing.T) {
	model, err := advise.StoredModel()
	require.NoError(t, err)
	facts := &advise.Facts{Requests: 5000, Census: census.Census{
		RootNamespace: "istio-system", Reports: census.Reports{AccessLogs: true},
		Namespaces: []census.Namespace{{Name: "shop", Workloads: 1, SeenServices: 100, SeenPorts: 100}},
	}}
	directory := t.TempDir()
	report := advise.Advise(facts, model)
	require.Len(t, report.Findings, 2)
	for _, found := range report.Findings {
		_, err := writeAdvice(directory, found)
		require.NoError(t, err)
	}
	analyze := func(out *terminal.Writer, _ *remote.Remote) *cobra.Command { return Analyze(out) }
	out, err := output(t, nil, analyze, directory)
	require.NoError(t, err, out)
	require.Equal(t, "0 errors, 0 warnings\n", out)
}
