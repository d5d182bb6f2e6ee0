package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// killAfter is how long Envoy may take to end after SIGTERM.
	killAfter = 5 * time.Second
	// checkEvery is how often a drain asks whether somebody is still connected.
	checkEvery = time.Second
	// maxFailedChecks in a row end a drain: nothing says any more when it would be over.
	maxFailedChecks = 5
)

// Options say which Envoy runs and how it ends.
type Options struct {
	Binary  string
	Args    []string
	Environ []string // "NAME=value", beside the agent's own
	Stdout  io.Writer
	Stderr  io.Writer
	Admin   *Admin
	Log     *slog.Logger

	// InboundOnly drains a sidecar, whose application may still call others.
	InboundOnly bool
	// TerminationDrain is how long Envoy goes on once it drains.
	TerminationDrain time.Duration
	// UntilIdle ends a drain, in place of TerminationDrain, when nobody is connected any more, and
	// after MinimumDrain at the earliest.
	UntilIdle    bool
	MinimumDrain time.Duration
	// OwnPorts are those of listeners whose clients do not count: readiness and metrics.
	OwnPorts []uint16

	// After is time.After; tests have another.
	After func(time.Duration) <-chan time.Time
}

// Supervisor runs one Envoy, once.
type Supervisor struct {
	o       Options
	quit    chan struct{} // closed when nothing more is waited for
	quitNow sync.Once
	drained atomic.Bool // by DrainNow
	pid     atomic.Int64
}

// New returns a supervisor that has not started anything.
func New(o Options) *Supervisor {
	if o.After == nil {
		o.After = time.After
	}
	return &Supervisor{o: o, quit: make(chan struct{})}
}

// Run starts Envoy and returns when it has ended. When the context ends, it drains Envoy and ends
// it: that is no error. An Envoy that ends by itself is one, unless it ended well.
func (s *Supervisor) Run(ctx context.Context) error {
	p, err := start(s.o)
	if err != nil {
		return fmt.Errorf("start of Envoy: %w", err)
	}
	s.pid.Store(int64(p.cmd.Process.Pid))
	s.o.Log.Info("Envoy started", "pid", p.cmd.Process.Pid, "args", s.o.Args)
	select {
	case <-p.done:
		return ended(p.err)
	case <-s.quit:
	case <-ctx.Done():
		s.drain(p)
	}
	select {
	case <-p.done: // while it drained
		return ended(p.err)
	default:
	}
	p.stop(s.o.After)
	s.o.Log.Info("Envoy ended")
	return nil
}

// ended says how an Envoy ended that nobody had told to.
func ended(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return errors.New("the Envoy was killed: most often the container has reached its memory limit")
		}
	}
	if err != nil {
		return fmt.Errorf("the Envoy ended: %w", err)
	}
	return nil
}

// PID returns the process of Envoy, 0 while there is none.
func (s *Supervisor) PID() int { return int(s.pid.Load()) }

// Quit ends Envoy without a drain.
func (s *Supervisor) Quit() { s.quitNow.Do(func() { close(s.quit) }) }

// DrainNow drains Envoy for a Pod whose containers end one after the other: it goes on serving, and
// its listeners stay open. When the context of Run ends after that, nothing is waited for.
func (s *Supervisor) DrainNow(ctx context.Context) error {
	s.drained.Store(true)
	return s.o.Admin.Drain(ctx, s.o.InboundOnly, true)
}

// drain asks Envoy's clients to leave, and returns when Envoy may end.
func (s *Supervisor) drain(p *process) {
	if s.drained.Load() {
		return
	}
	ctx := context.Background() // that of Run has ended
	if err := s.o.Admin.Drain(ctx, s.o.InboundOnly, false); err != nil {
		s.o.Log.Warn("Envoy does not drain", "err", err)
	}
	if !s.o.UntilIdle {
		s.o.Log.Info("draining", "for", s.o.TerminationDrain)
		s.wait(p, s.o.TerminationDrain)
		return
	}
	s.o.Log.Info("draining until nobody is connected", "atLeast", s.o.MinimumDrain)
	if s.wait(p, s.o.MinimumDrain) {
		s.awaitIdle(ctx, p)
	}
}

// awaitIdle returns when nobody is connected any more, or when Envoy does not say so. It has no
// limit of its own: the kubelet ends the container after the Pod's grace period.
func (s *Supervisor) awaitIdle(ctx context.Context, p *process) {
	failed := 0
	for {
		stats, err := s.o.Admin.Stats(ctx, "downstream_cx_active$")
		switch n := connections(stats, s.o.OwnPorts); {
		case err == nil && n == 0:
			return
		case err == nil:
			failed = 0
			s.o.Log.Info("draining", "connections", n)
		default:
			if failed++; failed == maxFailedChecks {
				s.o.Log.Warn("the drain ends: Envoy does not say who is connected", "err", err)
				return
			}
		}
		if !s.wait(p, checkEvery) {
			return
		}
	}
}

// wait reports whether the time has passed; it returns early when Envoy has ended, or shall.
func (s *Supervisor) wait(p *process, d time.Duration) bool {
	select {
	case <-p.done:
		return false
	case <-s.quit:
		return false
	case <-s.o.After(d):
		return true
	}
}
