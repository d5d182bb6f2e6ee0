package change

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lines is a service that talks plain TCP.
const lines = `apiVersion: v1
kind: Service
metadata:
  name: lines
spec:
  selector: {app: lines}
  ports:
  - name: tcp
    port: 9400
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: lines
spec:
  replicas: 2
  selector:
    matchLabels: {app: lines}
  template:
    metadata:
      labels: {app: lines}
    spec:
      containers:
      - name: lines
        image: lateen/sample
        env:
        - name: POD
          valueFrom:
            fieldRef: {fieldPath: metadata.name}
        args: ["--version=$(POD)", "--tcp=9400"]
        ports:
        - containerPort: 9400
`

// step is one thing that somebody does to the manifests while requests come in.
type step struct {
	file, deployment string
	replicas         int
}

// TestNoRequestFailsWhileServicesScaleAndRollOut scales, rolls out and reroutes the services of the
// bookshop while requests go through all of them: at the gateway's own target (productpage), behind
// a sidecar (reviews), and at the end of the chain (ratings).
func TestNoRequestFailsWhileServicesScaleAndRollOut(t *testing.T) {
	dir := bookinfo(t)
	m := &mesh{t: t, dir: dir}
	m.write("lines.yaml", lines)
	m = start(t, dir)
	streams := m.openStreams(t)
	load := startLoad(t, m.bookPages(), incomplete)

	for _, s := range []step{
		{"reviews.yaml", "reviews-v1", 3}, {"reviews.yaml", "reviews-v1", 2}, {"reviews.yaml", "reviews-v1", 5},
		{"reviews.yaml", "reviews-v1", 1},
		{"productpage.yaml", "productpage-v1", 3}, {"productpage.yaml", "productpage-v1", 1},
		{"productpage.yaml", "productpage-v1", 2},
		{"ratings.yaml", "ratings-v1", 3}, {"ratings.yaml", "ratings-v1", 2}, {"ratings.yaml", "ratings-v1", 4},
		{"ratings.yaml", "ratings-v1", 1},
		{"reviews.yaml", "reviews-v1", 4}, {"reviews.yaml", "reviews-v1", 1}, {"lines.yaml", "lines", 3},
		{"gateway.yaml", "ingressgateway", 2}, {"gateway.yaml", "ingressgateway", 1},
		{"reviews.yaml", "reviews-v1", 2},
	} {
		m.scale(s.file, s.deployment, strconv.Itoa(s.replicas))
		m.settled(s.deployment, s.replicas)
		load.goesOn(t)
	}
	m.rollOut("reviews.yaml", "reviews-v1")
	m.rollOut("productpage.yaml", "productpage-v1")
	m.reroute()

	m.scale("productpage.yaml", "productpage-v1", "1") // several at once
	m.scale("reviews.yaml", "reviews-v1", "1")
	m.scale("ratings.yaml", "ratings-v1", "2")
	m.settled("productpage-v1", 1)
	m.settled("reviews-v1", 1)
	m.settled("ratings-v1", 2)

	_, failures := load.report(t)
	streams.report(t)
	require.Zero(t, len(failures))
}

// goesOn waits until every connection has had answers after this moment.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	before, _ := l.count()
	require.Eventually(t, func() bool {
		now, _ := l.count()
		return now >= before+5*connections
	}, patience, 10*time.Millisecond)
}

// rollOut changes a Deployment's template, and waits until its new pods have taken the old ones'
// place.
func (m *mesh) rollOut(file, deployment string) {
	m.t.Helper()
	before := m.running(deployment)
	version := strings.TrimPrefix(deployment[strings.LastIndex(deployment, "-"):], "-")
	m.edit(file, `"--version=`+version+`", "--port=9080"]`,
		`"--version=`+version+`", "--port=9080", "--hostname=rolled-out"]`)
	m.screen.until(m.t, 0, deployment+" to be rolled out", func(lines []string) bool {
		now := running(lines, deployment)
		for name := range before {
			if _, old := now[name]; old {
				return false
			}
		}
		return len(now) == len(before)
	})
}

// reroute edits routes and policies of the services that are under load.
func (m *mesh) reroute() {
	m.t.Helper()
	mark := m.screen.mark()
	m.edit("traffic.yaml", "simple: ROUND_ROBIN", "simple: LEAST_REQUEST")
	m.pushed(mark, "DestinationRule default/reviews")
	mark = m.screen.mark()
	m.edit("traffic.yaml", "    loadBalancer:\n",
		"    connectionPool:\n      tcp:\n        connectTimeout: 2s\n    loadBalancer:\n")
	m.pushed(mark, "DestinationRule default/reviews")
	mark = m.screen.mark()
	m.edit("traffic.yaml", "      weight: 80", "      weight: 20", "subset: v2\n      weight: 10",
		"subset: v2\n      weight: 70")
	m.pushed(mark, "VirtualService default/reviews")
	mark = m.screen.mark()
	m.edit("traffic.yaml", "    timeout: 5s", "    timeout: 6s")
	m.pushed(mark, "VirtualService default/ratings")
	mark = m.screen.mark()
	m.edit("traffic.yaml", "consecutive5xxErrors: 3", "consecutive5xxErrors: 4")
	m.pushed(mark, "DestinationRule default/ratings")
}

// streams are TCP connections from one pod's Envoy to each replica of the service lines. Each sends
// a line every now and then, and fails when no answer comes.
type streams struct {
	stop    context.CancelFunc
	workers sync.WaitGroup
	mu      sync.Mutex
	answers map[string]int // by pod
	errors  []string
}

const streamPace = 20 * time.Millisecond

// openStreams connects until each replica has a stream.
func (m *mesh) openStreams(t *testing.T) *streams {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &streams{stop: stop, answers: map[string]int{}}
	t.Cleanup(s.end)
	client := m.running("details-v1")
	outbound := strings.Replace(client[only(t, client)], "127.32.", "127.96.", 1)
	open := map[string]bool{}
	for range 50 {
		if len(open) == 2 {
			break
		}
		conn, err := net.Dial("tcp", net.JoinHostPort(outbound, "9400"))
		require.NoError(t, err)
		pod, err := exchange(conn, bufio.NewReader(conn), "hello")
		require.NoError(t, err)
		if open[pod] {
			require.NoError(t, conn.Close())
			continue
		}
		open[pod] = true
		s.workers.Go(func() { s.work(ctx, conn, pod) })
	}
	require.Len(t, open, 2, "replicas that answered")
	return s
}

func (s *streams) work(ctx context.Context, conn net.Conn, pod string) {
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	pace := time.NewTicker(streamPace)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		from, err := exchange(conn, answers, fmt.Sprint("line ", i))
		s.mu.Lock()
		switch {
		case err != nil:
			s.errors = append(s.errors, fmt.Sprintf("%s: line %d at %s: %v", pod, i, time.Now().Format("15:04:05.000"),
				err))
		case from != pod:
			s.errors = append(s.errors, fmt.Sprintf("%s: line %d was answered by %s", pod, i, from))
		default:
			s.answers[pod]++
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// exchange sends a line and returns who answered.
func exchange(conn net.Conn, answers *bufio.Reader, line string) (from string, err error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	answer, err := answers.ReadString('\n')
	if err != nil {
		return "", err
	}
	from, echoed, _ := strings.Cut(strings.TrimSuffix(answer, "\n"), " ")
	if echoed != line {
		return from, fmt.Errorf("sent %q, got %q", line, answer)
	}
	return from, nil
}

func (s *streams) end() {
	s.stop()
	s.workers.Wait()
}

// report ends the streams; each must have lived to this moment.
func (s *streams) report(t *testing.T) {
	t.Helper()
	s.end()
	t.Logf("lines answered over one TCP connection each: %v", s.answers)
	require.Empty(t, s.errors)
}
