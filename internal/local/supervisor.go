package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// backoffReset is how long a process must run for its backoff to start over.
const backoffReset = time.Minute

// reportKind is the kind of a report.
type reportKind uint8

const (
	processStarted  reportKind = iota // with the process id
	processCrashed                    // it starts again after a pause
	processFinished                   // it will not start again
	processReady                      // its readiness probe succeeds
	processUnready                    // … does not (any more), and why
	portOpen                          // the pod's Envoy listens at the port
	podEnded                          // the last report of a pod
)

// report is a worker's message to the loop about its pod.
type report struct {
	pod       types.UID
	kind      reportKind
	container string
	pid       int
	port      int32
	failed    bool // processFinished with an error
	text      string
	tail      []string
}

// supervisor keeps one process running. Its probes report through it.
type supervisor struct {
	spec processSpec
	log  string
	// last returns the lines of the log, from an offset, that are told when the process ends.
	last       func(log string, since int64) []string
	spawner    *spawner
	backoff    time.Duration
	maxBackoff time.Duration
	tell       func(report) // waits until the loop has taken the report
}

// run starts the process again and again until the context ends, and then stops it.
func (s *supervisor) run(ctx context.Context) {
	pause := s.backoff
	for {
		began := time.Now()
		lines, err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if !restarts(s.spec.restart, err) {
			s.tell(report{kind: processFinished, failed: err != nil, text: describeExit(err), tail: lines})
			return
		}
		if time.Since(began) > backoffReset {
			pause = s.backoff
		}
		s.tell(report{
			kind: processCrashed,
			text: fmt.Sprintf("%s; starts again in %v", describeExit(err), pause),
			tail: lines,
		})
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, s.maxBackoff)
	}
}

// once runs the process until it ends by itself, the context ends, or its liveness probe fails.
func (s *supervisor) once(ctx context.Context) (lines []string, err error) {
	log, err := openLog(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	var since int64
	if info, err := log.Stat(); err == nil {
		since = info.Size()
	}
	p, err := s.spawner.start(ctx, s.spec, log)
	if err != nil {
		return nil, startError(err, s.spec)
	}
	s.tell(report{kind: processStarted, pid: p.cmd.Process.Pid})
	err = s.runProbes(ctx, p)
	return s.last(s.log, since), err
}

// runProbes probes the process while it runs.
func (s *supervisor) runProbes(ctx context.Context, p *process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var probes sync.WaitGroup
	probes.Go(func() {
		s.spec.readiness.watch(ctx, func(well bool, why string) {
			if well {
				s.tell(report{kind: processReady})
			} else {
				s.tell(report{kind: processUnready, text: why})
			}
		})
	})
	if s.spec.liveness != nil {
		probes.Go(func() {
			s.spec.liveness.watch(ctx, func(well bool, why string) {
				if !well {
					cancel(fmt.Errorf("liveness probe failed: %s", why))
				}
			})
		})
	}
	select {
	case <-p.done:
		cancel(nil)
		probes.Wait()
		return p.err
	case <-ctx.Done():
		probes.Wait()
		p.stop(s.spec.grace)
		return context.Cause(ctx)
	}
}

// restarts applies the pod's restart policy to the way a process ended.
func restarts(policy corev1.RestartPolicy, err error) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return err != nil
	default:
		return true
	}
}

func describeExit(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "ended by itself"
	case errors.As(err, &exit):
		return "crashed: " + exit.Error()
	default:
		return err.Error()
	}
}

// startError says which program could not be run, and where it was searched for.
func startError(err error, l processSpec) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot run %q in %s: there is no such program or directory", l.argv[0], l.dir)
	}
	return fmt.Errorf("cannot run %q in %s: %w", l.argv[0], l.dir, err)
}
