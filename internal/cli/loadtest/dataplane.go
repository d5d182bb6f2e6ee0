package loadtest

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/htmlreport"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// dataPlaneFlags are the flags of lateen perf data-plane.
type dataPlaneFlags struct {
	o                     dataplane.Options
	protocol, preset      string
	qps                   []string
	envoy, report, output string
	knobs                 bool
	tracing               float64
}

const maximal = "max"

func newDataPlane(out, progress *terminal.Writer) *cobra.Command {
	f := dataPlaneFlags{}
	cmd := &cobra.Command{
		Use:   "data-plane",
		Short: "What proxies add to requests, beside no proxy and beside hand-written Envoys",
		Long: `Runs a mesh of real Envoys on this machine, as lateen up does, and sends requests to one
server over four paths: without proxies (baseline), through two sidecars (sidecar), through a gateway
and a sidecar (ingress), and through two Envoys with a minimal configuration that was written by hand
(handwritten). Paths take turns, round by round.

Requests are sent at fixed times, whatever the answers do (open loop): a request that waits for the
answer to the one before it counts its wait. The command states whether sidecars take at most 5 %
more CPU for a request than the hand-written Envoys, and whether their p99 differs by no more than
noise. Where the machine is too noisy to tell, it says so.`,
		Example: `  lateen perf data-plane --preset aks
  lateen perf data-plane --protocol grpc --qps 1000 --connections 2,4,8,16,32,64
  lateen perf data-plane --qps max --mutual-tls=false --paths sidecar
  lateen perf data-plane --preset aks --knobs --rounds 8
  lateen perf data-plane --preset istio-1.1.8 --report results   # then: lateen perf report results --serve`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags().Changed); err != nil {
				return err
			}
			return f.run(cmd, out, progress)
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *dataPlaneFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	var presets, about []string
	for _, p := range dataplane.Presets() {
		presets = append(presets, p.Name)
		if p.About != "" {
			about = append(about, p.Name+" ("+p.About+")")
		}
	}
	flags.StringVar(&f.preset, "preset", "", "a published test, whose values other flags may change: "+
		strings.Join(about, "; "))
	command.OneOf(cmd, "preset", &f.preset, append(presets, "")...)
	flags.StringVar(&f.protocol, "protocol", string(traffic.HTTP1), command.Alternatives(traffic.Protocols()))
	command.OneOf(cmd, "protocol", &f.protocol, traffic.Protocols()...)
	flags.StringSliceVar(&f.o.Paths, "paths", dataplane.Paths(), "which paths are measured; baseline always is; "+
		dataplane.SidecarBack+" and "+dataplane.IngressClient+" lead to the client")
	flags.StringSliceVar(&f.qps, "qps", []string{"1000"}, "how many requests are sent a second over all connections; "+
		maximal+": each connection sends one when it has the answer to the one before")
	flags.IntSliceVar(&f.o.Connections, "connections", []int{16}, "over how many connections, 1 to 64 as a rule")
	flags.IntVar(&f.o.Payload, "payload", 1000, "how many bytes each request carries, and its answer")
	flags.DurationVar(&f.o.Duration, "duration", 10*time.Second, "how long a path is measured in each round")
	flags.IntVar(&f.o.Rounds, "rounds", 3, "how often each path is measured")
	flags.BoolVar(&f.o.MutualTLS, "mutual-tls", true, "proxies call each other in mutual TLS")
	flags.IntVar(&f.o.Workers, "workers", 2, "how many worker threads each proxy has (concurrency)")
	flags.BoolVar(&f.o.Telemetry, "telemetry", false, "proxies keep Istio's standard metrics")
	flags.BoolVar(&f.o.AccessLogs, "access-logs", false, "proxies write a line for each request")
	flags.BoolVar(&f.o.JSONLogs, "json-logs", false, "with --access-logs: the lines are JSON")
	flags.Float64Var(&f.tracing, "tracing", -1, "the percentage of requests whose spans proxies send to a collector; "+
		"below 0: they have no tracer")
	flags.BoolVar(&f.knobs, "knobs", false, "measure what metrics, access logs, tracing and concurrency cost, in "+
		"turn, through two sidecars")
	flags.IntVar(&f.o.Policies, "policies", 0, "how many AuthorizationPolicies the server has")
	flags.StringVar(&f.envoy, "envoy", "", "Envoy binary (default: $LATEEN_ENVOY, .tools/envoy here or beside the "+
		"binary, then PATH)")
	flags.StringVar(&f.report, "report", "", "write the results into this directory: as JSON and in Fortio's "+
		"format, and an HTML report of all that is there")
	_ = cmd.MarkFlagDirname("report")
	command.BindOutput(cmd, &f.output)
	for _, other := range []string{"paths", "telemetry", "access-logs", "json-logs", "tracing"} {
		cmd.MarkFlagsMutuallyExclusive("knobs", other)
	}
	f.restrict(flags)
}

// restrict makes flags reject invalid values.
func (f *dataPlaneFlags) restrict(flags *pflag.FlagSet) {
	command.AtLeast(flags, "payload", &f.o.Payload, 0)
	command.AtLeast(flags, "duration", &f.o.Duration, 100*time.Millisecond)
	command.AtLeast(flags, "rounds", &f.o.Rounds, 1)
	command.AtLeast(flags, "workers", &f.o.Workers, 1)
	command.AtLeast(flags, "policies", &f.o.Policies, 0)
	command.ValidateFlag(flags, "tracing", func() error {
		if f.tracing > 100 {
			return errors.New("want a percentage, or -1")
		}
		return nil
	})
	command.ValidateFlag(flags, "qps", func() error {
		_, err := parseQPS(f.qps)
		return err
	})
	command.ValidateFlag(flags, "connections", func() error {
		if slices.Min(f.o.Connections) < 1 {
			return errors.New("want numbers of 1 or more")
		}
		return nil
	})
	command.ValidateFlag(flags, "paths", func() error {
		if slices.ContainsFunc(f.o.Paths, func(p string) bool { return !slices.Contains(dataplane.AllPaths(), p) }) {
			return errors.New("want some of " + strings.Join(dataplane.AllPaths(), ", "))
		}
		return nil
	})
}

// parseQPS reads numbers of requests a second. 0 stands for as many as get answers.
func parseQPS(texts []string) (all []float64, err error) {
	for _, text := range texts {
		if text == maximal {
			all = append(all, 0)
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0 && n <= 1e6) {
			return nil, fmt.Errorf("%q: want a number above 0 and up to 1000000, or %s", text, maximal)
		}
		all = append(all, n)
	}
	return all, nil
}

// complete fills the options in: by the preset, but for flags that were set.
func (f *dataPlaneFlags) complete(changed func(flag string) bool) (err error) {
	set := f.o
	if set.QPS, err = parseQPS(f.qps); err != nil {
		return err
	}
	set.Protocol = traffic.Protocol(f.protocol)
	set.Tracing, set.Sampling = f.tracing >= 0, max(0, f.tracing)
	f.o = set
	for _, p := range dataplane.Presets() {
		if p.Name == f.preset {
			p.Set(&f.o)
		}
	}
	for flag, keep := range map[string]func(){
		"protocol":    func() { f.o.Protocol = set.Protocol },
		"paths":       func() { f.o.Paths = set.Paths },
		"qps":         func() { f.o.QPS = set.QPS },
		"connections": func() { f.o.Connections = set.Connections },
		"payload":     func() { f.o.Payload = set.Payload },
		"mutual-tls":  func() { f.o.MutualTLS = set.MutualTLS },
		"workers":     func() { f.o.Workers = set.Workers },
	} {
		if changed(flag) {
			keep()
		}
	}
	return f.o.Validate()
}

func (f *dataPlaneFlags) run(cmd *cobra.Command, out, progress *terminal.Writer) (err error) {
	if f.o.Envoy, err = command.FindEnvoy(f.envoy); err != nil {
		return err
	}
	if f.o.Self, err = os.Executable(); err != nil {
		return err
	}
	if f.o.StateDir, err = os.MkdirTemp("", "lateen-perf-"); err != nil {
		return err
	}
	f.o.IstioVersion, f.o.Version = build.IstioAPI, build.Version
	f.o.Log, f.o.Progress = slog.New(slog.DiscardHandler), progress.Bar
	if f.knobs {
		return f.runKnobs(cmd, out, progress)
	}
	r, err := dataplane.Run(cmd.Context(), f.o)
	progress.Progress("")
	r.Command = command.Line(cmd)
	if err == nil {
		err = os.RemoveAll(f.o.StateDir)
	}
	if len(r.Cases) == 0 {
		return err
	}
	if f.report != "" {
		err = errors.Join(err, save(f.report, r))
	}
	if err := errors.Join(err, printDataPlane(cmd, out, f.output, r)); err != nil {
		return err
	}
	if n := r.Failed(); n > 0 {
		return fmt.Errorf("%d requests were not answered", n)
	}
	return nil
}

func (f *dataPlaneFlags) runKnobs(cmd *cobra.Command, out, progress *terminal.Writer) error {
	r, err := dataplane.RunKnobs(cmd.Context(), f.o)
	progress.Progress("")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(f.o.StateDir); err != nil {
		return err
	}
	r.Command = command.Line(cmd)
	if f.report != "" {
		if err := write(f.report, dataplane.KnobsKind, r.Start, r); err != nil {
			return err
		}
	}
	if f.output != "table" {
		err = command.PrintAs(cmd.OutOrStdout(), f.output, r)
	} else {
		out.Paragraph("", terminal.Plain, r.Title())
		out.Line("")
		out.Table(r.Table())
		for _, n := range r.Notes {
			out.Paragraph("", terminal.Faint, n)
		}
	}
	if n := r.Failed(); err == nil && n > 0 {
		return fmt.Errorf("%d requests were not answered", n)
	}
	return err
}

// save writes a report as write does, and below it what Fortio's report browser reads.
func save(dir string, r dataplane.Report) error {
	if err := r.SaveFortio(filepath.Join(dir, fortioDir)); err != nil {
		return err
	}
	return write(dir, dataplane.Kind, r.Start, r)
}

// write writes a report into a directory, under a name that sorts by time, and the HTML report of
// all files there.
func write(dir, name string, start time.Time, report any) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, name+"-"+start.Format("20060102-150405")+".json"))
	if err != nil {
		return err
	}
	if err := errors.Join(command.PrintAs(file, "json", report), file.Close()); err != nil {
		return err
	}
	_, err = htmlreport.Write(dir)
	return err
}

// fortioDir is the directory of results in Fortio's format, below that of reports.
const fortioDir = "fortio"

func printDataPlane(cmd *cobra.Command, out *terminal.Writer, format string, r dataplane.Report) error {
	if format != "table" {
		return command.PrintAs(cmd.OutOrStdout(), format, r)
	}
	out.Paragraph("", terminal.Plain, r.Title())
	out.Line("")
	out.Table(r.LatencyTable())
	out.Line("")
	out.Table(r.ProxyTable())
	for _, c := range r.Cases {
		for _, s := range c.Statements {
			style := terminal.Good
			if s.Verdict != dataplane.Holds {
				style = terminal.Warn
			}
			out.Paragraph(fmt.Sprintf("%d connections: ", c.Connections), style, s.Text)
		}
	}
	for _, n := range r.Notes {
		out.Paragraph("", terminal.Faint, n)
	}
	return nil
}
