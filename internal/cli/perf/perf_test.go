package perf

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// perfReport is what the tests read of a report.
type perfReport struct {
	ControlPlane struct{ Name, Version, Source string }
	Capacity     []struct {
		Sidecars, Services, ChurnPercent int
		Borne                            bool
	}
	Phases []perfPhase
}

type perfPhase struct {
	Name              string
	Sidecars, Changes int
	Latency           struct{ Count int }
	Removal           struct{ Count int }
	LastSidecar       struct{ Count int }
	Ready             struct{ Count int }
	ReceivedBytes     int
	SentBytes         int
	RefusedResponses  int
	BrokenConnections int
	ResidentBytes     int
	PeakBytes         int
	AllocatedBytes    int
}

// measured runs a scenario with small numbers: this binary is the control plane too.
func measured(t *testing.T, args ...string) perfReport {
	t.Helper()
	var out strings.Builder
	cmd := Command(console.Plain(&out), console.Plain(&strings.Builder{}))
	cmd.SetOut(&out)
	cmd.SetArgs(append(args, "-o", "json", "--calm", "20ms"))
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	var r perfReport
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
	require.NotEmpty(t, r.ControlPlane.Name)
	for _, p := range r.Phases {
		require.Positive(t, p.ResidentBytes, p.Name)
		require.Positive(t, p.AllocatedBytes, p.Name)
		require.Zero(t, p.RefusedResponses, p.Name)
		require.Zero(t, p.BrokenConnections, p.Name)
	}
	return r
}

// phase is the one of that name, in which all sidecars had all changes.
func (r perfReport) phase(t *testing.T, name string, arrivals int) perfPhase {
	t.Helper()
	i := slices.IndexFunc(r.Phases, func(p perfPhase) bool { return p.Name == name })
	require.GreaterOrEqual(t, i, 0, "%+v", r.Phases)
	require.Equal(t, arrivals, r.Phases[i].Latency.Count)
	require.Positive(t, r.Phases[i].ReceivedBytes)
	return r.Phases[i]
}

func TestPerfOfChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	for _, c := range []struct{ kind, protocol, tls string }{
		{"create-services", "delta", "false"}, {"endpoints", "delta", "true"}, {"routes", "sotw", "false"},
	} {
		t.Run(c.kind+" "+c.protocol, func(t *testing.T) {
			r := measured(t, c.kind, "--services", "20", "--namespaces", "4", "--sidecars", "50", "--changes", "3",
				"--rate", "0", "--protocol", c.protocol, "--tls="+c.tls)
			require.Equal(t, 50, r.Phases[1].Ready.Count)
			r.phase(t, c.kind, 150)
		})
	}
}

func TestPerfOfChurn(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	r := measured(t, "churn", "--sidecars", "40", "--churn", "25", "--rate", "200")
	// Of the 39 others some go before a change has come to them: those that are replaced after it.
	churn := r.Phases[2]
	require.LessOrEqual(t, churn.Latency.Count, 10*39)
	require.GreaterOrEqual(t, churn.Latency.Count, 10*39-9*10/2)
	require.Equal(t, 10, churn.Ready.Count, "so many came")
	require.LessOrEqual(t, churn.Removal.Count, 10*39)
	require.GreaterOrEqual(t, churn.Removal.Count, 10*30-9*10/2,
		"of those that stayed, and of those that were replaced until then")
	require.Equal(t, 40, churn.Sidecars)
	require.Equal(t, 25, r.Capacity[0].ChurnPercent)
}

func TestPerfOfNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	small := []string{"namespaces", "--services", "20", "--namespaces", "4", "--pods", "40", "--virtual-services", "4",
		"--sidecars", "40", "--changes", "2", "--rate", "20"}
	open := measured(t, small...)
	isolated := measured(t, append(small, "--isolated")...)
	for _, kind := range []string{"endpoints", "routes", "create-services"} {
		all, own := open.phase(t, kind, 2*40), isolated.phase(t, kind, 2*10)
		require.Less(t, own.ReceivedBytes, all.ReceivedBytes, "%s: three namespaces of four hear nothing", kind)
	}
	require.Less(t, isolated.Phases[1].ReceivedBytes, open.Phases[1].ReceivedBytes)
}

func TestPerfOfGatewaysAndWhatIsUnmanaged(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	r := measured(t, "namespaces", "--services", "8", "--namespaces", "2", "--pods", "8", "--virtual-services", "2",
		"--sidecars", "6", "--changes", "2", "--rate", "20",
		"--isolated", "--gateways", "--unmanaged-namespaces", "1", "--unmanaged-services", "3", "--unmanaged-pods", "3")
	require.Equal(t, 6+2, r.Phases[1].Ready.Count, "gateways are in sync too")
	for _, kind := range []string{"endpoints", "routes", "create-services"} {
		r.phase(t, kind, 2*3)
	}
}

func TestPerfOfARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	profiles := t.TempDir()
	r := measured(t, "restart", "--services", "20", "--namespaces", "4", "--sidecars", "40", "--profile", profiles)
	require.Equal(t, 40, r.Phases[2].Ready.Count, "all came back")
	require.Less(t, r.Phases[2].ReceivedBytes, r.Phases[1].ReceivedBytes/2, "they say what they have")
	for _, phase := range []string{"connect", "restart"} {
		require.FileExists(t, filepath.Join(profiles, phase+".pprof"))
		picture, err := os.ReadFile(filepath.Join(profiles, phase+".svg"))
		require.NoError(t, err)
		require.Contains(t, string(picture), phase+": perf restart --calm")
	}
}

func TestPerfFindsACapacity(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	r := measured(t, "services", "--services", "5", "--namespaces", "1", "--sidecars", "8", "--changes", "1",
		"--find-capacity", "--max-sidecars", "10", "--max-p99", "1m")
	require.Len(t, r.Capacity, 3, "8, 10, and 10 as the result")
	require.Equal(t, 10, r.Capacity[2].Sidecars)
	require.True(t, r.Capacity[2].Borne)
	r.phase(t, "routes", 10)
}

// TestPerfOfTwoControlPlanes measures lateen serve behind an API server as if it were another
// control plane, and then again beside it.
func TestPerfOfTwoControlPlanes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server")
	}
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	self, err := os.Executable()
	require.NoError(t, err)
	xds, monitoring := held(t), held(t)
	var out strings.Builder
	cmd := Command(console.Plain(&out), console.Plain(&strings.Builder{}))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"all", "--services", "4", "--namespaces", "2", "--pods", "8", "--sidecars", "6", "--changes",
		"2", "--rate", "0", "--singly",
		"--kubeconfig", api.Kubeconfig(), "--target", xds, "--monitoring", monitoring, "--name", "another",
		"--warm-command", "true",
		"--run",
		command.Quoted(self) + " serve --kubeconfig " + command.Quoted(api.Kubeconfig()) + " --xds-address " + xds +
			" --monitoring-address " + monitoring,
		"--beside-lateen", "-o", "json", "--calm", "20ms"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	var both struct {
		A, B       perfReport
		Comparison perf.Comparison
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &both))
	require.Equal(t, "another", both.A.ControlPlane.Name)
	require.Equal(t, "lateen", both.B.ControlPlane.Name)
	require.Equal(t, "API server", both.B.ControlPlane.Source)
	require.Empty(t, both.Comparison.Differences)
	require.Len(t, both.A.Phases, 8)
	require.Len(t, both.Comparison.Phases, 7, "Lateen is not told to warm up")
	for _, r := range []perfReport{both.A, both.B} {
		for _, kind := range []string{"endpoints", "routes", "create-services"} {
			r.phase(t, kind, 2*6)
		}
		for _, again := range r.Phases[len(r.Phases)-2:] {
			require.Equal(t, 6, again.Ready.Count, again.Name)
			require.Positive(t, again.AllocatedBytes)
		}
	}
	requireNothingLeft(t, api)
}

// held is an address at which only who is told of it listens.
func held(t *testing.T) string {
	t.Helper()
	h, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(h.Release)
	return h.Address
}

// requireNothingLeft waits until what lateen perf has written into a cluster is gone.
func requireNothingLeft(t *testing.T, api *kubeapi.Server) {
	t.Helper()
	core, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	for _, left := range []func() (int, error){
		func() (int, error) {
			l, err := core.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			return len(l.Items), err
		},
		func() (int, error) {
			l, err := core.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			return len(l.Items), err
		},
		func() (int, error) {
			l, err := core.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{
				LabelSelector: "app.kubernetes.io/managed-by=" + load.Manager,
			})
			return len(l.Items), err
		},
	} {
		require.Eventually(t, func() bool { n, err := left(); return err == nil && n == 0 }, 3*time.Minute,
			50*time.Millisecond, "all that was written is deleted")
	}
}

func TestPerfTellsMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		`"200" for "--churn" flag: want 0 to 100`:          {"churn", "--churn", "200"},
		`"grpc" for "--protocol" flag: want delta or sotw`: {"routes", "--protocol", "grpc"},
		`"0" for "--sidecars" flag: want 1 or more`:        {"routes", "--sidecars", "0"},
		"--ask \"x\": want nds, sds":                       {"routes", "--ask", "nds,x"},
		"6 sidecars: want 1 to 5":                          {"routes", "--sidecars", "6", "--pods", "5"},
		"20 services in 50 namespaces":                     {"routes", "--services", "20", "--namespaces", "50"},
		"want --kubeconfig and --target":                   {"routes", "--pid", "1"},
		"want --kubeconfig":                                {"routes", "--target", "127.0.0.1:15010"},
		"[pid run]": {"routes", "--target", "a:1", "--kubeconfig", "k", "--pid",
			"1", "--run", "x"},
		"none of the others can be": {"routes", "--target", "a:1", "--kubeconfig", "k",
			"--in-memory"},
		"--kubeconfig no/such/file: ": {"routes", "--target", "a:1", "--kubeconfig",
			"no/such/file"},
	} {
		code, text := console.Said(t, console.Root(Command(console.Plain(io.Discard), console.Plain(io.Discard))),
			append([]string{"perf"}, args...)...)
		require.NotZero(t, code, args)
		require.Contains(t, text, want)
	}
}

func TestPerfPressure(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	var out strings.Builder
	cmd := Command(console.Plain(&out), console.Plain(&strings.Builder{}))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"pressure", "--services", "4", "--namespaces", "1", "--sidecars", "5", "--changes", "3",
		"--rate", "0", "--misbehaving", "2", "--mass-connect", "10",
		"--change-rate", "500", "--runs", "1", "--calm", "20ms", "-o", "json"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	var r perf.PressureReport
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
	require.Len(t, r.Rows, len(perf.Disturbances()))
	for _, row := range r.Rows {
		require.Equal(t, 3*5, row.Without[0].Latency.Count, row.Disturbance)
		require.Equal(t, 3*5, row.With[0].Latency.Count, row.Disturbance)
		require.Positive(t, row.With[0].Peak)
	}
	const bound = 64 << 10
	require.LessOrEqual(t, r.Rows[0].With[0].Queued, int64(2*bound), "of two that do not read")
}

// TestScenariosRunAnotherControlPlane: whatever is measured, --run starts who is measured first,
// and lateen serve is put beside it. A search for the capacity changes the mesh between its runs.
// TestPerfOfTwoControlPlanes has the other scenarios, which are parts of lateen perf all.
func TestScenariosRunAnotherControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server")
	}
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, args := range [][]string{
		{"namespaces", "--services", "2", "--namespaces", "2", "--pods", "4", "--isolated", "--gateways"},
		{"churn", "--churn", "50"},
		{
			"services", "--services", "2", "--namespaces", "2", "--find-capacity", "--max-sidecars", "6", "--max-p99",
			"1m",
		},
	} {
		t.Run(args[0], func(t *testing.T) {
			xds, monitoring := held(t), held(t)
			var out strings.Builder
			cmd := Command(console.Plain(&out), console.Plain(&strings.Builder{}))
			cmd.SetOut(&out)
			cmd.SetArgs(append(args, "--sidecars", "4", "--changes", "1", "--rate", "0", "--calm", "20ms", "-o", "json",
				"--kubeconfig", api.Kubeconfig(), "--beside-lateen",
				"--target", xds, "--name", "another", "--run", command.Quoted(self)+" serve --kubeconfig "+
					command.Quoted(api.Kubeconfig())+" --xds-address "+xds+" --monitoring-address "+monitoring))
			require.NoError(t, cmd.ExecuteContext(t.Context()))
			var both struct{ A, B perfReport }
			require.NoError(t, json.Unmarshal([]byte(out.String()), &both))
			require.Equal(t, "another", both.A.ControlPlane.Name)
			require.Equal(t, "lateen", both.B.ControlPlane.Name)
			require.Equal(t, len(both.A.Phases), len(both.B.Phases))
			require.Equal(t, len(both.A.Capacity), len(both.B.Capacity))
			for i, c := range both.A.Capacity {
				require.True(t, c.Borne)
				require.Equal(t, c.Sidecars, both.B.Capacity[i].Sidecars)
			}
		})
	}
	requireNothingLeft(t, api)
}

// TestAzuresTestsRunInACluster: churn and services write their steps to a real API server, and
// print the published columns.
func TestAzuresTestsRunInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server")
	}
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	for name, args := range map[string][]string{
		"churn":    {"churn", "--sidecars", "8", "--churn", "50"},
		"services": {"services", "--services", "4", "--sidecars", "8", "--changes", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			cmd := Command(console.Plain(&out), console.Plain(&strings.Builder{}))
			cmd.SetOut(&out)
			cmd.SetArgs(append(args, "--rate", "0", "--calm", "20ms", "--kubeconfig", api.Kubeconfig()))
			require.NoError(t, cmd.ExecuteContext(t.Context()))
			require.Regexp(t, `CHURN %\s+CHURN RATE\s+SERVICES\s+SIDECARS\s+MEMORY\s+CPU\s+P99`, out.String())
			require.Contains(t, out.String(), "API server")
			requireNothingLeft(t, api)
		})
	}
}

// TestEachPerfCommandKeepsItsResult as a table, as JSON, and in the HTML report. Those of
// lateen-perf have a test of their own.
func TestEachPerfCommandKeepsItsResult(t *testing.T) {
	out := console.Plain(io.Discard)
	found := 0
	for _, cmd := range Command(out, out).Commands() {
		if cmd.DisableFlagParsing {
			continue
		}
		found++
		require.NotNil(t, cmd.Flags().Lookup(results.Flag), cmd.Name())
		require.NotNil(t, cmd.Flags().Lookup("output"), cmd.Name())
	}
	require.Greater(t, found, 8)
}
