package change

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// load sends requests over connections that stay open, at a steady rate as long as the answers keep
// up, until it is stopped.
type load struct {
	stop    context.CancelFunc
	workers sync.WaitGroup
	began   time.Time

	mu       sync.Mutex
	answers  int
	failures []failure
}

// failure is a request that was not answered as it should have been.
type failure struct {
	at   time.Time
	took time.Duration
	why  string
}

// String is the failure on one line.
func (f failure) String() string {
	return fmt.Sprintf("at %s after %v: %s", f.at.Format("15:04:05.000"), f.took.Round(time.Millisecond), f.why)
}

const (
	connections = 10
	rate        = 250 // requests a second, over all connections
)

// startLoad asks for the URLs in turn. An answer is right if it is a 200 and the check finds
// nothing wrong with its body.
func startLoad(t *testing.T, urls []string, wrong func(body []byte) string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop, began: time.Now()}
	t.Cleanup(l.end)
	for i := range connections {
		l.workers.Go(func() { l.work(ctx, i, urls, wrong) })
	}
	return l
}

// work sends the requests of one connection.
func (l *load) work(ctx context.Context, first int, urls []string, wrong func(body []byte) string) {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: patience}
	defer client.CloseIdleConnections()
	pace := time.NewTicker(connections * time.Second / rate)
	defer pace.Stop()
	for i := first; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		began := time.Now()
		// A request that was sent is waited for, even if the load ends meanwhile: none is left
		// uncounted.
		why := request(context.WithoutCancel(ctx), client, urls[i%len(urls)], wrong)
		l.mu.Lock()
		l.answers++
		if why != "" {
			l.failures = append(l.failures, failure{at: began, took: time.Since(began), why: why})
		}
		l.mu.Unlock()
	}
}

// request says what was wrong with the answer; empty: nothing.
func request(ctx context.Context, client *http.Client, url string, wrong func(body []byte) string) string {
	status, body, err := get(ctx, client, url, nil)
	switch {
	case err != nil:
		return err.Error()
	case status != http.StatusOK:
		return fmt.Sprintf("%s: %d %s", url, status, body)
	}
	return wrong(body)
}

func get(ctx context.Context, client *http.Client, url string, header http.Header) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// end stops the load after the requests in flight.
func (l *load) end() {
	l.stop()
	l.workers.Wait()
}

// count is how many requests were answered until now, and which wrongly.
func (l *load) count() (answers int, failures []failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers, append([]failure(nil), l.failures...)
}

// report ends the load and logs how it went.
func (l *load) report(t *testing.T) (answers int, failures []failure) {
	t.Helper()
	l.end()
	took := time.Since(l.began)
	answers, failures = l.count()
	t.Logf("%d requests over %d connections in %v (%.0f a second), %d failed", answers, connections,
		took.Round(time.Millisecond),
		float64(answers)/took.Seconds(), len(failures))
	for i, f := range failures {
		if i == 10 {
			t.Logf("… and %d more", len(failures)-i)
			break
		}
		t.Logf("failed %s", f)
	}
	return answers, failures
}

// bookPages are requests that between them go through every service of the bookshop.
func (m *mesh) bookPages() []string {
	return []string{
		m.gateway + "/api/v1/products/0/reviews", m.gateway + "/api/v1/products/0/reviews",
		m.gateway + "/api/v1/products/0/ratings", m.gateway + "/productpage",
	}
}

// incomplete finds what a page shows in place of a part that it could not get.
func incomplete(body []byte) string {
	for _, sign := range []string{"not available", "answered 5", "answered 4", "no answer", `"error"`} {
		if at := strings.Index(string(body), sign); at >= 0 {
			return "a part is missing: " + string(body[at:min(at+100, len(body))])
		}
	}
	return ""
}

// reviewers counts which version and which pod answered n requests for reviews.
func (m *mesh) reviewers(n int, header http.Header) (versions, pods map[string]int) {
	m.t.Helper()
	versions, pods = map[string]int{}, map[string]int{}
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for range n {
		status, body, err := get(m.t.Context(), client, m.gateway+"/api/v1/products/0/reviews", header)
		if err != nil || status != http.StatusOK {
			versions[fmt.Sprint("status ", status)]++
			continue
		}
		var answer struct{ Version, Podname string }
		if json.Unmarshal(body, &answer) == nil {
			versions[answer.Version]++
			pods[answer.Podname]++
		}
	}
	return versions, pods
}
