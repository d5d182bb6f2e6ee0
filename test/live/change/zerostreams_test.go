package change

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// zeroStreams are TCP connections through one pod's Envoy, one to each replica of the service
// lines. What is promised: a stream lives until its own replica ends; a replica that is taken away
// serves it for the drain time, and then ends it itself. So the last thing that is read from a
// stream is its replica's own farewell. A stream that ends without one was cut by an Envoy.
type zeroStreams struct {
	mesh    *mesh
	address string        // where the Envoy takes them
	drain   time.Duration // how long a replica that goes away serves them at least
	stop    context.CancelFunc
	ctx     context.Context
	workers sync.WaitGroup

	mu       sync.Mutex
	open     map[string]bool // by pod
	opened   int
	lines    int
	ended    int // by their own replica
	shortest time.Duration
	failures []string
}

func newZeroStreams(t *testing.T, m *mesh, address string, drain time.Duration) *zeroStreams {
	s := &zeroStreams{mesh: m, address: address, drain: drain, open: map[string]bool{}}
	s.ctx, s.stop = context.WithCancel(t.Context())
	t.Cleanup(s.end)
	return s
}

// cover opens streams until each of the pods has one. The balancer chooses: what it gives twice is
// closed again.
func (s *zeroStreams) cover(t *testing.T, pods map[string]string) {
	t.Helper()
	await(t, fmt.Sprintf("a stream to each of %v", pods), func() bool {
		for pod := range pods {
			if !s.has(pod) {
				s.dial(t)
				return false
			}
		}
		return true
	})
}

func (s *zeroStreams) has(pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[pod]
}

func (s *zeroStreams) dial(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	pod, err := exchange(conn, answers, "hello")
	require.NoError(t, err, "a new stream is answered")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[pod] {
		require.NoError(t, conn.Close())
		return
	}
	s.open[pod] = true
	s.opened++
	s.workers.Go(func() { s.work(conn, answers, pod) })
}

// work sends numbered lines until the stream or the test ends.
func (s *zeroStreams) work(conn net.Conn, answers *bufio.Reader, pod string) {
	defer func() { _ = conn.Close() }()
	pace := time.NewTicker(streamPace)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-s.ctx.Done():
			return
		case <-pace.C:
		}
		farewell, err := s.line(conn, answers, pod, i)
		s.mu.Lock()
		switch {
		case err != nil:
			s.failures = append(s.failures, fmt.Sprintf("at %s: stream to %s, line %d: %v",
				time.Now().Format("15:04:05.000"), pod, i, err))
		case farewell:
			s.part(pod)
		default:
			s.lines++
		}
		if farewell || err != nil {
			delete(s.open, pod)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// line sends one line and reads its echo, or the replica's farewell.
func (s *zeroStreams) line(conn net.Conn, answers *bufio.Reader, pod string, i int) (farewell bool, err error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	sent := fmt.Sprint("line ", i)
	_, _ = fmt.Fprintln(conn, sent) // a replica that has ended does not take it, but its farewell is there to be read
	answer, err := answers.ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("cut off: %w", err)
	}
	switch strings.TrimSuffix(answer, "\n") {
	case pod + " " + sent:
		return false, nil
	case pod + " ends":
		return true, nil
	}
	return false, fmt.Errorf("sent %q, got %q", sent, answer)
}

// part checks that a replica that ended its stream had served it for the drain time since it began
// to leave. The screen's times have no fractions of a second, so it began at that time or later.
func (s *zeroStreams) part(pod string) {
	s.ended++
	leaving := regexp.MustCompile(`^(\d\d:\d\d:\d\d) +default/` + regexp.QuoteMeta(pod) + `: leaving$`)
	var since time.Duration = -1
	for _, line := range s.mesh.screen.since(0) {
		if found := leaving.FindStringSubmatch(line); found != nil {
			since = sinceClock(found[1])
		}
	}
	switch {
	case since < 0:
		s.failures = append(s.failures, pod+" ended its stream, though nobody asked it to leave")
	case since < s.drain:
		s.failures = append(s.failures, fmt.Sprintf("%s ended its stream %v after it began to leave, want %v at least",
			pod, since, s.drain))
	case s.shortest == 0 || since < s.shortest:
		s.shortest = since
	}
}

// sinceClock is how long ago a clock showed a time, within a day.
func sinceClock(clock string) time.Duration {
	then, err := time.Parse(time.TimeOnly, clock)
	if err != nil {
		return -1
	}
	now := time.Now()
	then = time.Date(now.Year(), now.Month(), now.Day(), then.Hour(), then.Minute(), then.Second(), 0, now.Location())
	if then.After(now) {
		then = then.AddDate(0, 0, -1)
	}
	return now.Sub(then)
}

func (s *zeroStreams) end() {
	s.stop()
	s.workers.Wait()
}

// report ends the streams and tells how they went.
func (s *zeroStreams) report() (text string, failures []string) {
	s.end()
	return fmt.Sprintf("%d TCP streams, %d lines echoed; %d were ended by their own replica, %v after it began to "+
		"leave or later", s.opened, s.lines, s.ended,
		s.shortest.Round(time.Millisecond)), s.failures
}
