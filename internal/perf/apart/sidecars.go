package apart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// Sidecars are the sidecars of one process.
type Sidecars struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	log    bytes.Buffer // the process's standard error; read it only when the process has ended
	synced atomic.Int64
	ended  chan struct{}
}

// Start runs a command that calls Serve, and connects the given sidecars from there, all at once.
// Callbacks and TLS of the options do not cross the process boundary: these sidecars use plaintext
// and report nothing but counts.
func Start(argv []string, o sidecar.Options, m sidecar.Faults, who []sidecar.Identity) (s *Sidecars, err error) {
	s = &Sidecars{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	s.cmd.Stderr, s.cmd.SysProcAttr = &s.log, ownProcessGroup()
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("sidecars that misbehave cannot be started: %w", err)
	}
	reports := json.NewDecoder(out)
	if err := s.sendOrders(reports, order{o, m, who}); err != nil {
		close(s.ended)
		return nil, errors.Join(fmt.Errorf("sidecars that misbehave: %w", err), s.Stop())
	}
	go s.readReports(reports)
	return s, nil
}

// sendOrders sends both orders, and waits for the first report in between.
func (s *Sidecars) sendOrders(reports *json.Decoder, o order) error {
	if err := background(s.cmd.Process.Pid); err != nil {
		return err
	}
	orders := json.NewEncoder(s.in)
	if err := orders.Encode(o); err != nil {
		return err
	}
	var ready report
	if err := reports.Decode(&ready); err != nil {
		return err
	}
	return orders.Encode(connectOrder{Connect: true})
}

// readReports reads reports until their end.
func (s *Sidecars) readReports(reports *json.Decoder) {
	defer close(s.ended)
	var r report
	for reports.Decode(&r) == nil {
		s.synced.Store(int64(r.Synced))
	}
}

// Synced returns how many sidecars have everything they asked for.
func (s *Sidecars) Synced() int { return int(s.synced.Load()) }

// stopWithin is how long the process may take to end before it is killed.
const stopWithin = 20 * time.Second

// Stop stops the sidecars and returns the errors of their process.
func (s *Sidecars) Stop() error {
	_ = s.in.Close() // it may have ended
	late := time.AfterFunc(stopWithin, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	<-s.ended // all of its output was read
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf(
			"sidecars that misbehave: %w; the end of what they said:\n%s", err, s.log.Bytes()[max(0,
				s.log.Len()-logTail):],
		)
	}
	return nil
}

// logTail is how many bytes of the process's log an error contains.
const logTail = 4 << 10
