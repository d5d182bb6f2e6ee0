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

// children are the processes of a control plane that is started and ended here, one at a time. Its methods but Done, Err and usage are
// called one at a time.
type children struct {
	lost chan struct{} // closed when a child ended by itself

	mu      sync.Mutex
	child   *child
	spent   measure.Usage // by those that have ended
	failure error
}

// child is one process.
type child struct {
	cmd   *exec.Cmd
	log   *tail
	ended chan struct{}
	asked bool // to end; guarded by the lock of children
}

func newChildren() *children { return &children{lost: make(chan struct{})} }

// start runs a command, which ends when this process does.
func (p *children) start(cmd *exec.Cmd) error {
	c := &child{cmd: cmd, log: &tail{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.log, c.log, tied()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the control plane cannot be started: %w", err)
	}
	p.mu.Lock()
	p.child = c
	p.mu.Unlock()
	go p.watch(c)
	return nil
}

// watch keeps the account of a child that has ended.
func (p *children) watch(c *child) {
	_ = c.cmd.Wait() // its state says it
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent.CPU += c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	if !c.asked && p.failure == nil {
		p.failure = fmt.Errorf("the control plane has ended (%s); the end of its log:\n%s", c.cmd.ProcessState, c.log.text())
		close(p.lost)
	}
	close(c.ended)
}

// usage is that of all processes so far; what only metrics tell is of those that were scraped.
func (p *children) usage(ctx context.Context, scrape *measure.Scrape) (u measure.Usage, err error) {
	p.mu.Lock()
	c, spent := p.child, p.spent
	p.mu.Unlock()
	if c == nil {
		return measure.Usage{At: time.Now()}, nil
	}
	pid := measure.PID(c.cmd.Process.Pid)
	if scrape != nil {
		u, err = measure.Both{PID: pid, Scrape: *scrape}.Usage(ctx)
	} else {
		u, err = pid.Usage(ctx)
	}
	return u.Sum(spent), err
}

// endWithin is how long a child may take to end before it is killed.
const endWithin = 10 * time.Second

// end ends the process that runs, if any does.
func (p *children) end(ctx context.Context) error {
	p.mu.Lock()
	c := p.child
	if c == nil {
		p.mu.Unlock()
		return nil
	}
	c.asked = true
	// Now, since what the kernel tells of a process that has ended (getrusage(2), ru_maxrss) has memory of this one in it, where it began.
	select {
	case <-c.ended: // its number may be another's by now
	default:
		if last, err := measure.PID(c.cmd.Process.Pid).Usage(ctx); err == nil {
			p.spent.Peak = max(p.spent.Peak, last.Peak)
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

// endAndKeep ends it to be started again: allocations are told by nobody afterwards.
func (p *children) endAndKeep(ctx context.Context, scrape *measure.Scrape) error {
	u, err := p.usage(ctx, scrape)
	if err == nil {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.spent.Allocated, p.spent.Allocations, p.spent.Collecting = u.Allocated, u.Allocations, u.Collecting
		}()
	}
	return p.end(ctx)
}

// Done is closed when the process has ended, which nobody has asked for.
func (p *children) Done() <-chan struct{} { return p.lost }

// Err says how it has ended, which nobody has asked for.
func (p *children) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// tail keeps the end of what is written. It is safe for concurrent use.
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
