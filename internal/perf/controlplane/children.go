package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// children starts and ends the processes of a control plane, one at a time. Done, Err and usage are
// safe for concurrent use; other methods are called one at a time.
type children struct {
	unexpectedEnd chan struct{} // closed when a child has ended unasked

	mu         sync.Mutex
	child      *childProcess
	endedUsage measure.Usage // of the processes that have ended
	failure    error
}

// childProcess is one process.
type childProcess struct {
	cmd      *exec.Cmd
	log      *tail
	ended    chan struct{}
	stopping bool // end was called; the lock of children guards it
}

func newChildren() *children { return &children{unexpectedEnd: make(chan struct{})} }

// start runs a command. It ends when this process does.
func (p *children) start(cmd *exec.Cmd) error {
	c := &childProcess{cmd: cmd, log: &tail{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.log, c.log, childAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the control plane cannot be started: %w", err)
	}
	p.mu.Lock()
	p.child = c
	p.mu.Unlock()
	go p.watch(c)
	return nil
}

// watch waits for the end of a child and records its CPU time.
func (p *children) watch(c *childProcess) {
	_ = c.cmd.Wait() // ProcessState has the result
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endedUsage.CPU += c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	if !c.stopping && p.failure == nil {
		p.failure = fmt.Errorf(
			"the control plane has ended (%s); the end of its log:\n%s", c.cmd.ProcessState, c.log.text(),
		)
		close(p.unexpectedEnd)
	}
	close(c.ended)
}

// usage returns the usage of all processes so far. Numbers that only metrics have cover the scraped
// processes.
func (p *children) usage(ctx context.Context, scrape *measure.Scrape) (u measure.Usage, err error) {
	p.mu.Lock()
	c, spent := p.child, p.endedUsage
	p.mu.Unlock()
	if c == nil {
		return measure.Usage{At: time.Now()}, nil
	}
	pid := measure.PID(c.cmd.Process.Pid)
	if scrape != nil {
		u, err = measure.PIDWithMetrics{PID: pid, Scrape: *scrape}.Usage(ctx)
	} else {
		u, err = pid.Usage(ctx)
	}
	return u.Sum(spent), err
}

// endWithin is how long a child may take to end before it is killed.
const endWithin = 10 * time.Second

// end ends the running process, if there is one.
func (p *children) end(ctx context.Context) error {
	p.mu.Lock()
	c := p.child
	if c == nil {
		p.mu.Unlock()
		return nil
	}
	c.stopping = true
	// Read the peak before the end: afterwards ru_maxrss (getrusage(2)) includes memory of this
	// process from before exec.
	select {
	case <-c.ended: // the PID may have been reused
	default:
		if last, err := measure.PID(c.cmd.Process.Pid).Usage(ctx); err == nil {
			p.endedUsage.Peak = max(p.endedUsage.Peak, last.Peak)
		}
	}
	p.mu.Unlock()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timeout := time.NewTimer(endWithin)
	defer timeout.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timeout.C:
	case <-ctx.Done():
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
	return ctx.Err()
}

// endForRestart ends the process and keeps its allocation counts, which nothing tells after its
// end.
func (p *children) endForRestart(ctx context.Context, scrape *measure.Scrape) error {
	u, err := p.usage(ctx, scrape)
	if err == nil {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.endedUsage.Allocated, p.endedUsage.Allocations, p.endedUsage.GCTime = u.Allocated, u.Allocations, u.GCTime
		}()
	}
	return p.end(ctx)
}

// Done is closed when the process has ended unasked.
func (p *children) Done() <-chan struct{} { return p.unexpectedEnd }

// Err says how the process has ended unasked.
func (p *children) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// tail keeps the last bytes written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const tailBytes = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if over := len(t.end) - tailBytes; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}
