package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shipRate is how many lines a second are written, and shipWindow how long.
	shipRate   = 4000
	shipWindow = 5 * time.Second
	shipTick   = 50 * time.Millisecond
)

// ship has rsyslogd read lines from a file while they are written, and send them to a receiver. It
// returns the CPU time for 1,000 lines in seconds, and the memory, or NaN if there is no rsyslogd.
func (r *run) ship(ctx context.Context, what string, lines [][]byte) (cpu, memory float64, err error) {
	if r.Tools.Rsyslogd == "" {
		return math.NaN(), math.NaN(), nil
	}
	dir, err := os.MkdirTemp(r.StateDir, "rsyslogd-")
	if err != nil {
		return 0, 0, err
	}
	to, err := startReceiver()
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, to.stop()) }()
	file, err := os.Create(filepath.Join(dir, "access.log"))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	d, err := r.startRsyslogd(dir, file.Name(), to.port)
	if err != nil {
		return 0, 0, err
	}
	defer d.stop()
	// The first line shows that it reads.
	if _, err := file.Write(lines[0]); err != nil {
		return 0, 0, err
	}
	if err := d.await(ctx, r.Patience, to.has(1)); err != nil {
		return 0, 0, err
	}
	before, err := d.pid().Usage(ctx)
	if err != nil {
		return 0, 0, err
	}
	n, err := r.writeLines(ctx, file, what, lines)
	if err != nil {
		return 0, 0, err
	}
	if err := d.await(ctx, r.Patience, to.has(1+n)); err != nil {
		return 0, 0, err
	}
	after, err := d.pid().Usage(ctx)
	return 1000 * (after.CPU - before.CPU).Seconds() / float64(n), float64(after.Resident), err
}

// writeLines writes lines at a steady rate, and returns how many.
func (r *run) writeLines(ctx context.Context, to io.Writer, what string, lines [][]byte) (n int64, err error) {
	ticker := time.NewTicker(shipTick)
	defer ticker.Stop()
	batches := max(1, int(float64(shipWindow/shipTick)*r.Pause))
	for i := range batches {
		r.Progress("shipping access logs: "+what, i, batches)
		var batch bytes.Buffer
		for range int(shipRate * shipTick.Seconds()) {
			batch.Write(lines[n%int64(len(lines))])
			n++
		}
		if _, err := to.Write(batch.Bytes()); err != nil {
			return n, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	return n, nil
}

// startRsyslogd starts one that sends what is added to a file to a port.
func (r *run) startRsyslogd(dir, file string, port uint16) (*daemon, error) {
	config := filepath.Join(dir, "rsyslog.conf")
	content := fmt.Sprintf(`global(workDirectory=%q maxMessageSize="64k" net.enableDNS="off")
module(load="imfile" mode="inotify")
input(type="imfile" file=%q tag="istio-proxy" ruleset="ship")
ruleset(name="ship") {
  action(type="omfwd" target="127.0.0.1" port="%d" protocol="tcp" template="RSYSLOG_SyslogProtocol23Format")
}
`, dir, file, port)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, err
	}
	return startDaemon(dir, "rsyslogd", r.Tools.Rsyslogd, "-n", "-f", config, "-i", filepath.Join(dir, "pid"))
}

// receiver takes lines over TCP, and counts them.
type receiver struct {
	port     uint16
	listener net.Listener
	lines    atomic.Int64
	open     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func startReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, text, _ := net.SplitHostPort(l.Addr().String())
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &receiver{port: uint16(port), listener: l}
	s.open.Go(s.accept)
	return s, nil
}

func (s *receiver) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil { // stop was called
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		s.open.Go(func() { s.count(c) })
	}
}

func (s *receiver) count(c net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.Read(buffer)
		s.lines.Add(int64(bytes.Count(buffer[:n], []byte("\n"))))
		if err != nil {
			return
		}
	}
}

// has returns a condition: so many lines have come.
func (s *receiver) has(want int64) func(context.Context) error {
	return func(context.Context) error {
		if have := s.lines.Load(); have < want {
			return fmt.Errorf("%d of %d lines have come", have, want)
		}
		return nil
	}
}

// stop closes all connections and waits for their ends.
func (s *receiver) stop() error {
	err := s.listener.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		err = errors.Join(err, c.Close())
	}
	s.mu.Unlock()
	s.open.Wait()
	return err
}
