package loadtest

import (
	"context"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

func TestMistakesInTheCommandLineAreToldAtOnce(t *testing.T) {
	for _, args := range [][]string{
		{"report"}, {"report", "a", "--address", "here"}, {"lab"}, {"lab", "none"}, {"lab", "book", "--scale", "2"},
		{"lab", "book", "--pause", "-1"}, {"lab", "book", "dns"}, {"gateway", "--run", "x"},
		{"gateway", "--kubeconfig", "k", "--target", "127.0.0.1:1"},
		{"gateway", "--run", "x", "--target", "127.0.0.1:1"},
	} {
		code := command.Run(context.Background(), newRoot(), append([]string{"perf"}, args...))
		require.Equal(t, command.ExitUsage, code, args)
	}
	for _, args := range [][]string{
		{"--qps", "0"}, {"--qps", "many"}, {"--connections", "4,0"}, {"--paths", "egress"}, {"--protocol", "udp"},
		{"--preset", "none"}, {"--rounds", "0"}, {"--workers", "0"}, {"--payload", "-1"}, {"--duration", "1ms"},
		{"more"},
	} {
		code := command.Run(context.Background(), newRoot(), append([]string{"perf", "data-plane"}, args...))
		require.Equal(t, command.ExitUsage, code, args)
	}
}

// parsed returns the options of a command line.
func parsed(t *testing.T, args ...string) dataplane.Options {
	t.Helper()
	var f dataPlaneFlags
	cmd := &cobra.Command{}
	f.bind(cmd)
	require.NoError(t, cmd.ParseFlags(args))
	require.NoError(t, f.complete(cmd.Flags().Changed))
	return f.o
}

func TestFlagsChangeSingleValuesOfAPreset(t *testing.T) {
	o := parsed(t, "--preset", "aks")
	require.Equal(t, []float64{1000}, o.QPS)
	require.Equal(t, []int{16}, o.Connections)
	require.Equal(t, 100, o.Payload)
	require.Equal(t, dataplane.Paths(), o.Paths)

	o = parsed(t, "--preset", "istio-1.1.8")
	require.Equal(t, []float64{1000}, o.QPS)
	require.Equal(t, []int{16}, o.Connections)
	require.Equal(t, 1000, o.Payload)

	o = parsed(t, "--preset", "istio-0.7.1", "--workers", "4")
	require.Equal(t, []float64{400}, o.QPS)
	require.Equal(t, []int{8}, o.Connections)
	require.Zero(t, o.Payload)
	require.Equal(t, 4, o.Workers)
	for _, p := range dataplane.Presets() {
		o = dataplane.Options{Workers: 9}
		p.Set(&o)
		require.Equal(t, 2, o.Workers, "%s: the published tests have two worker threads", p.Name)
		require.True(t, o.MutualTLS, p.Name)
	}

	o = parsed(t, "--preset", "istio-tools", "--qps", "max,10", "--protocol", "grpc", "--mutual-tls=false")
	require.Equal(t, []float64{0, 10}, o.QPS)
	require.Equal(t, []int{2, 4, 8, 16, 32, 64}, o.Connections)
	require.Equal(t, traffic.GRPC, o.Protocol)
	require.False(t, o.MutualTLS)
	require.Equal(t, 1024, o.Payload)

	o = parsed(t, "--duration", "3s")
	require.Equal(t, 3*time.Second, o.Duration)
	require.Equal(t, traffic.HTTP1, o.Protocol)
}

// TestThinkTimeOfTheAirline: it is the published one unless set, and never below zero.
func TestThinkTimeOfTheAirline(t *testing.T) {
	var f labFlags
	cmd := f.complete(&cobra.Command{})
	require.Equal(t, airline.PublishedThink, f.o.Think)
	require.NoError(t, cmd.ParseFlags([]string{"--think", "10ms"}))
	require.Equal(t, 10*time.Millisecond, f.o.Think)
	require.Equal(t, command.ExitUsage,
		command.Run(context.Background(), newRoot(), []string{"perf", "app", "--think", "-1ms"}))
}

func TestEveryCommandHasHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		cmd.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%s --%s", cmd.CommandPath(), f.Name) })
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot())
}

// TestEachCommandKeepsItsResult as a table, as JSON, and in the HTML report.
func TestEachCommandKeepsItsResult(t *testing.T) {
	perf, _, err := newRoot().Find([]string{"perf"})
	require.NoError(t, err)
	require.NotEmpty(t, perf.Commands())
	for _, cmd := range perf.Commands() {
		if cmd.Name() == "report" || cmd.Name() == "compare" { // they read what others keep
			continue
		}
		require.NotNil(t, cmd.Flags().Lookup("report"), cmd.Name())
		require.NotNil(t, cmd.Flags().Lookup("output"), cmd.Name())
	}
}
