package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running child and everything that it started: they share a process group.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after the leader was reaped and the rest of the group killed
	err  error         // how the leader ended; valid after done

	mu     sync.Mutex
	reaped bool // the process id may belong to somebody else from now on
}

// startProcess starts a process with its output appended to a log. Only the spawner calls it.
func startProcess(l processSpec, log *os.File) (*process, error) {
	cmd := exec.Command(l.argv[0], l.argv[1:]...)
	cmd.Env, cmd.Dir = l.env, l.dir
	cmd.Stdout, cmd.Stderr = log, log // stdin is /dev/null
	cmd.SysProcAttr = Tied()
	if l.files != nil {
		files, err := l.files()
		if err != nil {
			return nil, err
		}
		defer closeAll(files)
		cmd.ExtraFiles = files
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // the process has its own
	}
}

// wait reaps the leader. It kills the rest of the group before that, while the leader's process ID
// is still taken, so that the signal cannot reach another process.
func (p *process) wait() {
	defer close(p.done)
	if !awaitExit(p.cmd.Process.Pid) {
		err := p.cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reaped, p.err = true, err
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.reaped, p.err = true, p.cmd.Wait()
}

// signal signals the whole group; after the end it does nothing.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// stop terminates the group, and kills it after the grace period.
func (p *process) stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// spawner starts all processes from one operating-system thread that lives as long as the runtime.
// The kernel kills a child tied to its parent when the thread that started it dies, not when the
// process does.
type spawner struct {
	requests chan func() // unbuffered: a worker waits its turn
}

func newSpawner() *spawner { return &spawner{requests: make(chan func())} }

// run serves requests until the context ends. Every child must have ended by then.
func (s *spawner) run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-s.requests:
			f()
		}
	}
}

func (s *spawner) start(ctx context.Context, l processSpec, log *os.File) (p *process, err error) {
	done := make(chan struct{})
	request := func() {
		defer close(done)
		p, err = startProcess(l, log)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case s.requests <- request:
		<-done
		return p, err
	}
}

const (
	tailLines = 10
	tailBytes = 4 << 10
	// logLimit is the size above which a log is renamed when its process restarts. One old log is
	// kept.
	logLimit = 10 << 20
)

// openLog opens a log for appending. It renames a large one before.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("log too large, and setting it aside failed: %w", err)
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// tail returns the last tailLines lines, at most, that were written to a log since the offset.
func tail(path string, since int64) []string {
	lines := linesOf(path, since, tailBytes)
	return lines[max(0, len(lines)-tailLines):]
}

// linesOf returns the lines that were written to a log since the offset, of the last bytes of it.
func linesOf(path string, since, bytes int64) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(since, info.Size()-bytes)
	buf := make([]byte, max(0, info.Size()-from))
	n, _ := f.ReadAt(buf, from)
	text := strings.TrimRight(string(buf[:n]), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if from > since && len(lines) > 1 {
		lines = lines[1:] // the first is cut
	}
	return lines
}
