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

// Sidecars are those of one process.
type Sidecars struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	log    bytes.Buffer // the process's standard error, to be read when it has ended
	synced atomic.Int64
	ended  chan struct{}
}

// Start runs a command that is to be Serve, and lets sidecars connect from there, all at once. They do not encrypt, and nobody hears
// what comes to them: such options are this process's.
func Start(argv []string, o sidecar.Options, m sidecar.Manners, who []sidecar.Identity) (s *Sidecars, err error) {
	s = &Sidecars{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	s.cmd.Stderr, s.cmd.SysProcAttr = &s.log, ofItsOwn()
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
	if err := s.begin(reports, order{o, m, who}); err != nil {
		close(s.ended)
		return nil, errors.Join(fmt.Errorf("sidecars that misbehave: %w", err), s.Stop())
	}
	go s.hear(reports)
	return s, nil
}

// begin tells the process what to do, and returns when it does it.
func (s *Sidecars) begin(reports *json.Decoder, o order) error {
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
	return orders.Encode(word{Connect: true})
}

// hear takes reports until there are no more.
func (s *Sidecars) hear(reports *json.Decoder) {
	defer close(s.ended)
	var r report
	for reports.Decode(&r) == nil {
		s.synced.Store(int64(r.Synced))
	}
}

// Synced is how many of them have all that they asked for.
func (s *Sidecars) Synced() int { return int(s.synced.Load()) }

// stopWithin is how long the process may take to end before it is killed.
const stopWithin = 20 * time.Second

// Stop ends them, and tells what went wrong with their process.
func (s *Sidecars) Stop() error {
	_ = s.in.Close() // it may have ended
	late := time.AfterFunc(stopWithin, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	<-s.ended // all of its output was read
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("sidecars that misbehave: %w; the end of what they said:\n%s", err, s.log.Bytes()[max(0, s.log.Len()-logTail):])
	}
	return nil
}

// logTail is how much is told of what the process has said, in bytes.
const logTail = 4 << 10
