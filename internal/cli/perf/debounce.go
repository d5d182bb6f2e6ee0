package perf

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// debounceSetting is an environment of the measured control plane.
type debounceSetting struct {
	name, profiles string
	environment    []string
}

// The environment variables of the debounce.
const (
	debounceAfter  = "PILOT_DEBOUNCE_AFTER"
	debounceEarly  = "LATEEN_DEBOUNCE_EARLY"
	debounceSteady = "LATEEN_DEBOUNCE_STEADY"
)

// debounceSettings returns Lateen's rule and Istio's, with the quiet time from this process's
// environment.
func debounceSettings(environ []string, lookup func(string) (string, bool)) []debounceSetting {
	quiet, ok := lookup(debounceAfter)
	if !ok {
		quiet = "100ms"
	}
	plain := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == debounceAfter || name == debounceEarly || name == debounceSteady
	})
	explicit := debounceAfter + "=" + quiet
	return []debounceSetting{
		{"default", "default", plain}, {explicit, "explicit", slices.Concat(plain, []string{explicit})},
	}
}

// newPerfDebounce makes the command that compares Lateen's debounce with Istio's.
func newPerfDebounce(out, progress *terminal.Writer) *cobra.Command {
	var f perfFlags
	var long time.Duration
	cmd := &cobra.Command{
		Use:   "debounce",
		Short: "How soon changes arrive, in how many pushes: by Lateen's rule and by Istio's",
		Long: `Measures Lateen twice, with a mesh in memory: as it is by default, and with
PILOT_DEBOUNCE_AFTER set, which makes it gather changes exactly as istiod does. Changes come alone,
then some all the time, then as storms. PUSHES are responses to each sidecar.`,
		Example: `  lateen perf debounce --sidecars 200 --long 60s
  PILOT_DEBOUNCE_AFTER=500ms lateen perf debounce -o json`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(cmd, progress)
			if err != nil {
				return err
			}
			scenario, err := perf.DebounceScenario(o, long)
			if err != nil {
				return err
			}
			all, err := f.debounce(cmd, progress, o, scenario)
			progress.Progress("")
			report := map[string]any{"command": command.Line(cmd), "lateen": build.Version, "settings": all}
			if len(all) > 0 {
				err = errors.Join(err, results.Keep(cmd, report))
			}
			if f.output != "table" {
				return errors.Join(err, command.PrintAs(cmd.OutOrStdout(), f.output, report))
			}
			if len(all) > 0 {
				out.Line("%s", all[0].Report.Title())
				out.Line("")
				out.Table(perf.DebounceTable(all))
			}
			return err
		},
	}
	f.mesh = load.Shape{Namespaces: 10, Services: 100, VirtualServices: 2}
	f.bindMeasuring(cmd, perfDefaults{mesh: f.mesh, sidecars: 200, changes: 10, rate: 1})
	cmd.Flags().DurationVar(&long, "long", 20*time.Second, "how long changes come all the time, and storms last")
	command.AtLeast(cmd.Flags(), "long", &long, time.Second)
	return cmd
}

// debounce measures one setting after the other. On error it returns those measured so far.
func (f *perfFlags) debounce(
	cmd *cobra.Command, progress *terminal.Writer, o perf.Options, scenario perf.Scenario,
) (all []perf.Debounced, err error) {
	for _, setting := range debounceSettings(os.Environ(), os.LookupEnv) {
		var r perf.Report
		if r, err = f.measureSetting(cmd.Context(), setting, o, scenario, progress); len(r.Phases) > 0 {
			r.Command, r.Lateen = command.Line(cmd), build.Version
			all = append(all, perf.Debounced{Setting: setting.name, Report: r})
		}
		if err != nil {
			break
		}
	}
	return all, err
}

func (f *perfFlags) measureSetting(
	ctx context.Context, s debounceSetting, o perf.Options, scenario perf.Scenario, progress *terminal.Writer,
) (perf.Report, error) {
	plane := o.Plane
	o.Plane = func() controlplane.Plane {
		p := plane()
		if memory, ok := p.(*controlplane.InMemory); ok {
			memory.Environment = s.environment
		}
		return p
	}
	o.Progress = func(stage string, done, all int) { progress.Bar(s.name+": "+stage, done, all) }
	if keep := o.Profile; keep != nil {
		dir := filepath.Join(f.profile, s.profiles)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return perf.Report{}, err
		}
		o.Profile = func(phase string, profile []byte) error { return saveProfile(dir, phase, s.name, profile) }
	}
	return perf.Run(ctx, o, scenario)
}
