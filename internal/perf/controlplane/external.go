package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
)

// External is a control plane that reads the API server to which the mesh is written. It runs
// elsewhere, or it is a Child.
type External struct {
	// Target is its xDS address.
	Target string
	// Process is its process, if it runs on this machine. Scrape are its metrics, if their address
	// is known.
	Process measure.Process
	Scrape  *measure.Scrape
	// Child runs it once the mesh is written. It is nil if it runs elsewhere.
	Child *Child
	// RestartCommand is a shell command that restarts it. It is empty for a Child, or if there is
	// no way.
	RestartCommand string
	// WarmCommand is a shell command that makes it send everything to all proxies. It is empty if
	// there is no way.
	WarmCommand string
	// Name is its name in reports. By default it is the name of its program, or its address.
	Name    string
	Cluster *Cluster
	// Keep leaves the mesh in the API server at the end, in its first state, for another control
	// plane.
	Keep bool

	// usageBefore is the usage of the process before the run, or before its restart by
	// RestartCommand.
	usageBefore measure.Usage
}

// Run returns a control plane that a command runs and that serves xDS at target. A nil scrape means
// that its metrics are unknown.
func (e External) Run(command []string, target string, scrape *measure.Scrape) *External {
	e.Child = NewChild(command, target, scrape)
	e.Target, e.Scrape, e.Process = target, scrape, e.Child
	return &e
}

// A control plane that uses less than idleCPUShare of a CPU has read the mesh. idleTimeout bounds
// the wait for that.
const (
	idleCPUShare = 0.1
	idleTimeout  = 2 * time.Minute
)

// Start implements Plane.
func (e *External) Start(ctx context.Context, mesh []source.Change) error {
	var err error
	if e.usageBefore, err = e.Usage(ctx); err != nil {
		return err
	}
	if err := e.Cluster.Begin(ctx, mesh); err != nil {
		return err
	}
	if err := e.Cluster.AwaitEndpoints(ctx, podsIn(mesh)); err != nil {
		return err
	}
	if e.Child != nil {
		if err := e.Child.begin(ctx); err != nil {
			return err
		}
	}
	return e.awaitIdle(ctx)
}

// podsIn counts the Pods of a mesh. The cluster's controller makes an endpoint of each.
func podsIn(mesh []source.Change) (n int) {
	for _, ch := range mesh {
		if ch.Key.Kind == kinds.Pod {
			n++
		}
	}
	return n
}

// awaitIdle waits until the control plane is idle, if its usage is known.
func (e *External) awaitIdle(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	before, err := e.Usage(ctx)
	for began := before.At; err == nil && e.Process != nil; {
		select {
		case <-ticker.C:
		case <-e.Done():
			return e.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
		var now measure.Usage
		if now, err = e.Usage(ctx); err != nil {
			break
		}
		if float64(now.CPU-before.CPU) < idleCPUShare*float64(now.At.Sub(before.At)) ||
			now.At.Sub(began) > idleTimeout {
			return nil
		}
		before = now
	}
	return err
}

// Apply implements Plane.
func (e *External) Apply(ctx context.Context, changes ...source.Change) error {
	return e.Cluster.Apply(ctx, changes...)
}

// Address implements Plane.
func (e *External) Address() string { return e.Target }

// Describe implements Plane.
func (e *External) Describe(ctx context.Context) Description {
	d := Description{Name: cmp.Or(e.Name, "xDS at "+e.Target), Source: "API server"}
	if e.Name == "" && e.Child != nil {
		d.Name = e.Child.name()
	}
	if e.Scrape == nil {
		return d
	}
	metrics, err := e.Scrape.Metrics(ctx)
	if err != nil {
		return d
	}
	if d.Version = metrics.Label("pilot_info", "version"); d.Version == "" {
		d.Version = metrics.Label("istio_build", "tag")
	}
	return d
}

// Usage implements Plane, since the start of the run. It is zero if neither process nor metrics are
// known.
func (e *External) Usage(ctx context.Context) (measure.Usage, error) {
	if e.Process == nil {
		return measure.Usage{At: time.Now()}, nil
	}
	u, err := e.Process.Usage(ctx)
	return u.Since(e.usageBefore), err
}

// Restart implements Plane.
func (e *External) Restart(ctx context.Context) error {
	if e.Child != nil {
		return e.Child.restart(ctx)
	}
	if e.RestartCommand == "" {
		return fmt.Errorf("this control plane cannot be restarted: want a command that does (%w)", ErrUnsupported)
	}
	used, err := e.Usage(ctx)
	if err != nil {
		return err
	}
	if err := shell(ctx, e.RestartCommand); err != nil {
		return err
	}
	// The next process counts from zero.
	e.usageBefore = measure.Usage{}.Since(used)
	return nil
}

func shell(ctx context.Context, command string) error {
	if out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// Warm implements Plane.
func (e *External) Warm(ctx context.Context) (bool, error) {
	if e.WarmCommand == "" {
		return false, nil
	}
	return true, shell(ctx, e.WarmCommand)
}

// Profile implements Plane.
func (e *External) Profile(context.Context) (stop func() ([]byte, error), err error) {
	return nil, fmt.Errorf("a CPU profile can be had of Lateen in memory alone (%w)", ErrUnsupported)
}

// Collect implements Plane.
func (e *External) Collect(context.Context) error {
	return fmt.Errorf("garbage is collected at will of Lateen in memory alone (%w)", ErrUnsupported)
}

// Done implements Plane. It is nil if the control plane runs elsewhere.
func (e *External) Done() <-chan struct{} {
	if e.Child == nil {
		return nil
	}
	return e.Child.Done()
}

// Err implements Plane.
func (e *External) Err() error {
	if e.Child == nil {
		return nil
	}
	return e.Child.Err()
}

// Close implements Plane.
func (e *External) Close(ctx context.Context) error {
	var all []error
	if e.Child != nil {
		all = append(all, e.Child.end(ctx), e.Child.Err())
	}
	leave := e.Cluster.End
	if e.Keep {
		leave = e.Cluster.Restore
	}
	if err := leave(ctx); err != nil {
		all = append(all, errors.New("not all that was written could be taken away"), err)
	}
	return errors.Join(all...)
}
