package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// daemon is a program that runs beside a lab. It ends when this process does.
type daemon struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when it has ended
}

// startDaemon starts a program. Its output goes to a file in a directory.
func startDaemon(dir, name string, argv ...string) (*daemon, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = dir, attributes()
	return startCommand(filepath.Join(dir, name+".log"), name, cmd)
}

// startCommand starts a program. Its output goes to a file.
func startCommand(file, name string, cmd *exec.Cmd) (*daemon, error) {
	d := &daemon{name: name, log: file, cmd: cmd, ended: make(chan struct{})}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { _ = d.cmd.Wait(); close(d.ended) }()
	return d, nil
}

// await waits until a condition holds. It fails if the program ends before, or after a time.
func (d *daemon) await(ctx context.Context, patience time.Duration, holds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-d.ended:
			return fmt.Errorf("%s has ended (%s); its log is %s", d.name, d.cmd.ProcessState, d.log)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log is %s", d.name, errors.Join(ctx.Err(), err), d.log)
		}
	}
}

func (d *daemon) pid() measure.PID { return measure.PID(d.cmd.Process.Pid) }

// daemonEnd is how long a program may take to end before it is killed.
const daemonEnd = 10 * time.Second

// stop ends the program. It does nothing on nil.
func (d *daemon) stop() {
	if d == nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(daemonEnd)
	defer timer.Stop()
	select {
	case <-d.ended:
	case <-timer.C:
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}
