package envoy

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running Envoy.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; valid after done
}

// start starts Envoy with its output on the agent's. A goroutine keeps the thread that started it,
// because the kernel ends the child with that thread: an Envoy never outlives its agent.
func start(o Options) (*process, error) {
	p := &process{cmd: exec.Command(o.Binary, o.Args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = o.Stdout, o.Stderr, append(p.cmd.Environ(), o.Environ...)
	p.cmd.SysProcAttr = tied()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop ends Envoy: by SIGTERM, at which it writes its logs out, and by force when that takes long.
func (p *process) stop(after func(time.Duration) <-chan time.Time) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-after(killAfter):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
