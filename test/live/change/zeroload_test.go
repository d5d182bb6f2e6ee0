package change

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	zeroConnections = 16  // half of them through a sidecar, half through the gateway
	zeroRate        = 260 // requests a second, over all connections
)

// zeroServices are asked in turn. front asks many and one in its turn.
var zeroServices = []string{"many", "front", "solo", "one"}

// slow are paths that take a while, so that requests are in flight whenever a replica goes away.
var slow = map[string]string{"many": "delay/80", "front": "front"}

// zeroLoad asks services through a sidecar and through the gateway, at a steady rate as long as the
// answers keep up.
type zeroLoad struct {
	stop    context.CancelFunc
	workers sync.WaitGroup
	began   time.Time
	absent  *absences

	mu    sync.Mutex
	tally map[flow]*tally
	// byConnection is how many answers each connection has had.
	byConnection [zeroConnections]int
}

// flow is what requests have in common: "sidecar" or "gateway", and the service.
type flow struct{ way, service string }

type tally struct {
	answered, noReplica int
	// resent is how often the client sent a request again by itself: its idle connection was closed
	// in that moment.
	resent   int
	failures []failure
}

// startZeroLoad sends requests to an HTTP proxy, as an app's own calls, and to a gateway's URL.
func startZeroLoad(t *testing.T, proxy, gateway string, absent *absences) *zeroLoad {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &zeroLoad{stop: stop, began: time.Now(), absent: absent, tally: map[flow]*tally{}}
	t.Cleanup(l.end)
	through := http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
	for i := range zeroConnections {
		transport := &http.Transport{MaxConnsPerHost: 1}
		way, urlOf := "gateway", func(service string) string { return gateway + "/" + service }
		if i%2 == 0 {
			transport.Proxy = through
			way = "sidecar"
			urlOf = func(service string) string { return "http://" + service + ":9080/" + slow[service] }

		}
		l.workers.Go(func() { l.work(ctx, i, &http.Client{Transport: transport, Timeout: patience}, way, urlOf) })
	}
	return l
}

func (l *zeroLoad) work(ctx context.Context, connection int, client *http.Client, way string,
	urlOf func(service string) string) {
	defer client.CloseIdleConnections()
	pace := time.NewTicker(zeroConnections * time.Second / zeroRate)
	defer pace.Stop()
	for i := connection / 2; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		// A request that was sent is waited for, even if the load ends meanwhile: none is left
		// uncounted.
		service := zeroServices[i%len(zeroServices)]
		l.ask(context.WithoutCancel(ctx), client, flow{way, service}, urlOf(service))
		l.mu.Lock()
		l.byConnection[connection]++
		l.mu.Unlock()
	}
}

// ask sends one request and counts what became of it.
func (l *zeroLoad) ask(ctx context.Context, client *http.Client, f flow, url string) {
	sent := 0
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent++ }})
	began := time.Now()
	status, body, err := get(ctx, client, url, nil)
	ended := time.Now()
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case status != http.StatusOK:
		why = fmt.Sprintf("%d %s", status, body)
	default:
		why = failedCall(body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally[f]
	if t == nil {
		t = &tally{}
		l.tally[f] = t
	}
	t.resent += max(0, sent-1)
	switch {
	case why == "":
		t.answered++
	case status == http.StatusServiceUnavailable && string(body) == "no healthy upstream" &&
		l.absent.during(f.service, began, ended):
		t.noReplica++
	default:
		t.failures = append(t.failures, failure{
			at:   began,
			took: ended.Sub(began),
			why:  f.way + " " + f.service + ": " + why,
		})
	}
}

// failedCall says which of the calls that the asked pod made itself went wrong.
func failedCall(body []byte) string {
	var answer struct {
		Hostname string
		Calls    []struct {
			URL, Error string
			Status     int
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "an answer of somebody else: " + string(body)
	}
	for _, c := range answer.Calls {
		if c.Status != http.StatusOK {
			return fmt.Sprintf("%s got for %s: %d %s", answer.Hostname, c.URL, c.Status, c.Error)
		}
	}
	return ""
}

// goesOn waits until each connection has had answers after this moment.
func (l *zeroLoad) goesOn(t *testing.T) {
	t.Helper()
	before := l.progress()
	await(t, "answers on each connection", func() bool {
		for i, n := range l.progress() {
			if n < before[i]+len(zeroServices) {
				return false
			}
		}
		return true
	})
}

func (l *zeroLoad) progress() [zeroConnections]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byConnection
}

// noReplica is how many requests for a service have met none.
func (l *zeroLoad) noReplica(way, service string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tally[flow{way, service}]; t != nil {
		return t.noReplica
	}
	return 0
}

// end stops the load after the requests in flight.
func (l *zeroLoad) end() {
	l.stop()
	l.workers.Wait()
}

// table ends the load and tells how it went.
func (l *zeroLoad) table() (text string, failures []failure) {
	l.end()
	took := time.Since(l.began)
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-6s %9s %11s %7s %7s\n", "WAY", "TO", "ANSWERED", "NO REPLICA", "RESENT", "FAILED")
	sum := 0
	for _, way := range []string{"sidecar", "gateway"} {
		for _, service := range zeroServices {
			t := l.tally[flow{way, service}]
			if t == nil {
				t = &tally{}
			}
			fmt.Fprintf(&b, "%-8s %-6s %9d %11d %7d %7d\n", way, service, t.answered, t.noReplica, t.resent,
				len(t.failures))
			sum += t.answered + t.noReplica + len(t.failures)
			failures = append(failures, t.failures...)
		}
	}
	fmt.Fprintf(&b, "%d requests over %d connections in %v: %.0f a second", sum, zeroConnections,
		took.Round(time.Second), float64(sum)/took.Seconds())
	return b.String(), failures
}

// absences are the times at which services have no replica.
type absences struct {
	mu  sync.Mutex
	all map[string][]absence
}

// absence begins when the manifest is written that takes the last replica away, and ends when every
// Envoy that is asked has the next one, on the thread that serves. What Envoy says of itself in
// between ("no healthy upstream") is the other half of the proof.
type absence struct{ from, to time.Time }

func (a *absences) begin(service string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[service] = append(a.all[service], absence{from: time.Now()})
}

func (a *absences) end(service string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[service][len(a.all[service])-1].to = time.Now()
}

// during tells whether a request met an absence.
func (a *absences) during(service string, began, ended time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.all[service] {
		if ended.After(w.from) && (w.to.IsZero() || began.Before(w.to)) {
			return true
		}
	}
	return false
}
