package local

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ControlPlaneProcess is the control plane as a process of its own, beside the pods.
type ControlPlaneProcess struct {
	// Argv is its command line, Environ its whole environment.
	Argv, Environ []string
	// Files opens the files that it inherits, as descriptors from 3 on. It is called for each
	// start; the runtime closes them once the process runs.
	Files func() ([]*os.File, error)
	// Monitoring is the address of its /ready.
	Monitoring netip.AddrPort
}

// controlPlaneName is the process's name in notices and of its log.
const controlPlaneName = "control-plane"

// controlPlaneRecord is the loop's record of the process.
type controlPlaneRecord struct {
	container
	supervisor supervisor
}

func newControlPlaneRecord(o Options, s *spawner) *controlPlaneRecord {
	ready := &corev1.HTTPGetAction{Path: "/ready"}
	return &controlPlaneRecord{
		container: container{name: controlPlaneName, reason: "starting"},
		supervisor: supervisor{
			spec: processSpec{
				container: controlPlaneName, argv: o.ControlPlane.Argv, env: o.ControlPlane.Environ, dir: o.StateDir,
				files: o.ControlPlane.Files, grace: o.Grace,
				readiness: probe{
					check:   httpCheck(ready, o.ControlPlane.Monitoring),
					period:  2 * time.Second,
					timeout: time.Second,
					success: 1,
					failure: 3,
				},
			},
			log:        filepath.Join(o.StateDir, controlPlaneName+".log"),
			last:       lastWords,
			spawner:    s,
			backoff:    o.Backoff,
			maxBackoff: o.MaxBackoff,
		},
	}
}

// run keeps the process running until the context ends, and reports to the loop.
func (c *controlPlaneRecord) run(ctx context.Context, reports chan<- report) {
	s := c.supervisor // the loop reads its log's path meanwhile
	s.tell = func(r report) {
		r.container = controlPlaneName
		select {
		case reports <- r:
		case <-ctx.Done(): // nobody listens any more
		}
	}
	s.run(ctx)
}

// handleReport updates the record by a report of the supervisor.
func (c *controlPlaneRecord) handleReport(r report, notify func(Notice)) {
	wasReady := c.ready
	tell, bad := c.container.handleReport(r)
	switch {
	case tell:
		notify(Notice{Pod: controlPlaneName, Text: r.text, Tail: r.tail, Bad: bad})
	case c.ready && !wasReady:
		notify(Notice{Pod: controlPlaneName, Text: "ready"})
	case wasReady && !c.ready:
		notify(Notice{Pod: controlPlaneName, Text: "not ready: " + r.text, Bad: true})
	}
}

func (c *controlPlaneRecord) status() *ProcessStatus {
	return &ProcessStatus{Name: c.name, PID: c.pid, Restarts: c.restarts, Ready: c.ready, Log: c.supervisor.log}
}
