package podnet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

// Command is a program to run in a pod.
type Command struct {
	Args   []string
	Env    []string
	Output *os.File
}

// Process is a running program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs a program in the pod, with mounts and a host name of its own. It dies with this
// process.
func (p *Pod) Start(c Command) (*Process, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, c.Output, c.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
	}
	process := &Process{cmd: cmd, done: make(chan struct{})}
	if err := p.network.spawner.start(p.ns, cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Args[0], err)
	}
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(process.done)
	}()
	return process, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Succeeded waits until the process has ended, and reports whether it ended well.
func (p *Process) Succeeded() bool {
	<-p.done
	return p.cmd.ProcessState.Success()
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process and those that it started.
func (p *Process) Signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// Stop asks the process to end, kills it after the grace, and returns when it has ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
	}
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// spawner starts all processes from one thread that lives as long as the network: a child that dies
// with its parent dies with the thread that started it.
type spawner struct {
	requests chan func() // unbuffered: callers wait their turn
	ended    chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.requests {
			f()
		}
	}()
	return s
}

func (s *spawner) start(ns netns.NsHandle, cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- func() { result <- inside(ns, cmd.Start) }
	return <-result
}

func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
