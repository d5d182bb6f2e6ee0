package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/cpulimit"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Options say how a lab is run.
type Options struct {
	// Server is the command of a control plane whose mesh comes over a link: "lateen
	// perf-control-plane".
	Server []string
	// Self is the path of this program, for pods that run it.
	Self string
	// Cluster is for what only an API server shows.
	Cluster Cluster
	// Envoy is the path of an Envoy binary. Empty: what needs one is left out.
	Envoy string
	// Tools are further programs that the lab around measures.
	Tools Tools
	// StateDir gets what Envoys need.
	StateDir string
	// Version is that of Lateen, for results.
	Version string
	// Scale is the size as a share of the published one. 0 stands for the lab's own.
	Scale float64
	// Pause is how long the book and others wait between two changes, as a share of the published
	// pause. 1 is as published.
	Pause float64
	// Clients is how many clients of the airline there are, and Think how long each waits between
	// two requests.
	Clients int
	Think   time.Duration
	// Limits is whether control planes get the published limits of CPU: one of the constants.
	Limits string
	// Real has an Envoy for each sidecar where the lab can.
	Real bool
	// Patience is how long nothing may move before a lab fails. 0 is two minutes.
	Patience time.Duration
	// Progress is told how far a step is. It may be nil.
	Progress func(what string, done, all int)
}

// Whether there are limits of CPU.
const (
	NoLimits   = "off"
	WithLimits = "on"
	// LimitsIfAllowed has none, and a note that says why, where this process may not set them.
	LimitsIfAllowed = "auto"
)

// Limits returns the constants.
func Limits() []string { return []string{NoLimits, WithLimits, LimitsIfAllowed} }

// run is a running lab.
type run struct {
	Options
	// groups is where limits of CPU are set; nil for none.
	groups *cpulimit.Hierarchy
	tables []Table
	notes  []string
}

// Run runs a lab. On error the report has what was measured until then.
func (l Lab) Run(ctx context.Context, o Options) (Report, error) {
	if o.Scale == 0 {
		o.Scale = l.Scale
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	r := &run{Options: o, tables: l.tables()}
	report := Report{
		Kind: Kind, Lab: l.Name, Lateen: o.Version, Start: time.Now().UTC(), Machine: measure.ThisMachine(),
		Scale: o.Scale,
	}
	err := o.validate()
	if err == nil && l.NeedsEnvoy && o.Envoy == "" {
		err = fmt.Errorf("lab %s needs an Envoy: make envoy puts one into .tools, or name one with --envoy", l.Name)
	}
	if err == nil && !l.Limited && (o.Limits == WithLimits || o.Real) {
		err = fmt.Errorf("lab %s has neither limits of CPU nor sidecars that may be Envoys: want bookinfo-20", l.Name)
	}
	if err == nil {
		err = l.checkRoom(o.Scale)
	}
	if err == nil {
		err = r.findGroups()
	}
	if err == nil {
		err = l.run(ctx, r)
	}
	report.Tables, report.Notes = r.tables, r.notes
	return report, err
}

// findGroups looks for control groups if there are to be limits.
func (r *run) findGroups() error {
	if r.Limits == "" || r.Limits == NoLimits {
		return nil
	}
	found, err := cpulimit.Find()
	switch {
	case err == nil:
		r.groups = &found
	case r.Limits == LimitsIfAllowed:
		r.note("Control planes have no limit of CPU: %v.", err)
		return nil
	}
	return err
}

// checkRoom reports whether this machine has room for the lab's sidecars, and which scale it has
// room for.
func (l Lab) checkRoom(scale float64) error {
	err := perf.CheckLimits(int(float64(l.Sidecars) * scale))
	var limit *perf.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	if fits := math.Floor(100*float64(limit.Fits)/float64(l.Sidecars)) / 100; fits > 0 {
		return fmt.Errorf("%w, with --scale %.2g", err, fits)
	}
	return err
}

func (o Options) validate() error {
	switch {
	case o.Scale < 0 || o.Scale > 1 || math.IsNaN(o.Scale):
		return fmt.Errorf("scale %v: want more than 0, and 1 at most", o.Scale)
	case o.Pause < 0 || o.Pause > 1 || math.IsNaN(o.Pause):
		return fmt.Errorf("pause %v: want 0 to 1", o.Pause)
	case o.Limits != "" && !slices.Contains(Limits(), o.Limits):
		return fmt.Errorf("limits %q: want one of %s", o.Limits, strings.Join(Limits(), ", "))
	case len(o.Server) == 0:
		return errors.New("there is no command for the control plane")
	}
	return nil
}

// scaled returns a published number at the scale of this run, at least least.
func (r *run) scaled(published, least int) int {
	return max(least, int(float64(published)*r.Scale+0.5))
}

func (r *run) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// plane returns a control plane that is not started yet, with settings in addition to this
// process's environment, as NAME=value.
func (r *run) plane(settings ...string) *controlplane.InMemory {
	p := controlplane.NewInMemory(r.Server, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if len(settings) > 0 {
		p.Environment = append(os.Environ(), settings...)
	}
	return p
}

// pause waits for a share of a published pause.
func (r *run) pause(ctx context.Context, published time.Duration) error {
	timer := time.NewTimer(time.Duration(float64(published) * r.Pause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
