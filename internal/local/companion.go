package local

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Companion is a process that is run beside the pods and belongs to none of them.
type Companion struct {
	// Argv is its command line, Environ its whole environment.
	Argv, Environ []string
	// Files opens what it inherits as descriptors from 3 on. It is called for each start; what it
	// returns is closed when the process runs.
	Files func() ([]*os.File, error)
	// Monitoring is where it answers /ready.
	Monitoring netip.AddrPort
}

// controlPlane is the companion's name in notices, and of its log.
const controlPlane = "control-plane"

// companion is the loop's record of the Companion.
type companion struct {
	container
	supervisor supervisor
}

func newCompanion(o Options, s *spawner) *companion {
	ready := &corev1.HTTPGetAction{Path: "/ready"}
	return &companion{
		container: container{name: controlPlane, why: "starting"},
		supervisor: supervisor{
			launch: launch{
				container: controlPlane, argv: o.ControlPlane.Argv, env: o.ControlPlane.Environ, dir: o.StateDir,
				files: o.ControlPlane.Files, grace: o.Grace,
				readiness: probe{
					check:   gets(ready, o.ControlPlane.Monitoring),
					period:  2 * time.Second,
					timeout: time.Second,
					success: 1,
					failure: 3,
				},
			},
			log:        filepath.Join(o.StateDir, controlPlane+".log"),
			spawner:    s,
			backoff:    o.Backoff,
			maxBackoff: o.MaxBackoff,
		},
	}
}

// run keeps the process running until the context ends, and reports to the loop.
func (c *companion) run(ctx context.Context, reports chan<- report) {
	s := c.supervisor // the loop reads its log's path meanwhile
	s.tell = func(r report) {
		r.container = controlPlane
		select {
		case reports <- r:
		case <-ctx.Done(): // nobody listens any more
		}
	}
	s.run(ctx)
}

// hear takes in what the supervisor reports.
func (c *companion) hear(r report, notify func(Notice)) {
	wasReady := c.ready
	tell, bad := c.container.hear(r)
	switch {
	case tell:
		notify(Notice{Pod: controlPlane, Text: r.text, Tail: r.tail, Bad: bad})
	case c.ready && !wasReady:
		notify(Notice{Pod: controlPlane, Text: "ready"})
	case wasReady && !c.ready:
		notify(Notice{Pod: controlPlane, Text: "not ready: " + r.text, Bad: true})
	}
}

func (c *companion) status() *ProcessStatus {
	return &ProcessStatus{Name: c.name, PID: c.pid, Restarts: c.restarts, Ready: c.ready, Log: c.supervisor.log}
}
