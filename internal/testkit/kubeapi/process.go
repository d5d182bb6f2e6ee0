package kubeapi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// process is one child. Its output goes to a file, so that nobody needs to read it for the child to
// go on.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the child has ended
}

// spawn starts a child in a process group of its own. It does so from a goroutine of its own,
// because a test may have tied itself to a thread (with another network namespace, say), and a
// child dies with the thread that started it.
func spawn(dir, program string, args ...string) (*process, error) {
	p := &process{name: args[0], log: filepath.Join(dir, args[0]+".log"), done: make(chan struct{})}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, output, output
	p.cmd.SysProcAttr = tied()
	started := make(chan error)
	go func() { started <- p.cmd.Start() }()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s %s: %w", program, p.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// kill ends the child and its group without notice and waits until it is gone. A crash is the
// harder case for everybody, and etcd loses nothing by it.
func (p *process) kill() {
	if p == nil {
		return
	}
	killGroup(p.cmd.Process)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of the child's output, for the output of a failed test.
func (p *process) tail() string {
	const lines = 30
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return fmt.Sprintf("the end of %s's output:\n%s", p.name, bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
