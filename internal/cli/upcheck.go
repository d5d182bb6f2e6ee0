package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
)

// progressStep is the number of requests between two lines of progress.
const progressStep = 50

// result counts the answers to the requests of one target.
type result struct {
	statuses map[string]int
	failed   int
	slowest  time.Duration
}

// check waits until the mesh is in sync, sends requests through its gateways and prints the
// results. An error in the manifests makes it fail, whether or not a request is affected.
func (m *mesh) check(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, m.o.timeout)
	defer cancel()
	s, err := m.inSync(wait)
	if ctx.Err() != nil {
		return m.interrupted()
	}
	if err != nil {
		return m.notReady(s)
	}
	m.table(s)
	targets := checkTargets(s.LoadBalancers, m.world())
	if len(targets) == 0 {
		m.out.Line("%s: no VirtualService is bound to a Gateway that is open: there is nothing to ask for", m.o.dir)
		return errFailed
	}
	results := map[target]*result{}
	client := &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(
		*http.Request, []*http.Request,
	) error {
		return http.ErrUseLastResponse
	}}
	for i := range m.o.requests {
		if i%progressStep == 0 {
			m.out.Progress(fmt.Sprintf("sending requests: %d of %d", i, m.o.requests))
		}
		ask(ctx, client, targets[i%len(targets)], results)
		if ctx.Err() != nil {
			m.out.Progress("")
			return m.interrupted()
		}
	}
	m.out.Progress("")
	return m.verdict(targets, results)
}

// interrupted ends an interrupted check, which has no result.
func (m *mesh) interrupted() error {
	m.out.Line("stopped before the check was done")
	return errFailed
}

func (m *mesh) notReady(s *local.Snapshot) error {
	switch {
	case !s.Synced:
		m.out.Line("the manifests have not been read after %s", m.o.timeout)
	case s.Ready():
		m.out.Line("the proxies have not accepted everything after %s", m.o.timeout)
	default:
		m.out.Line("not everything is ready after %s:", m.o.timeout)
		m.unready(s)
	}
	for _, p := range m.plane.Problems() {
		m.out.Paragraph("  ", styleOf(p.Severity), p.String())
	}
	return errFailed
}

func ask(ctx context.Context, client *http.Client, t target, results map[target]*result) {
	r := results[t]
	if r == nil {
		r = &result{statuses: map[string]int{}}
		results[t] = r
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+t.path, nil)
	if err != nil {
		r.statuses[err.Error()]++
		r.failed++
		return
	}
	req.Host = t.host
	start := time.Now()
	resp, err := client.Do(req)
	r.slowest = max(r.slowest, time.Since(start))
	if err != nil {
		r.statuses["no answer"]++
		r.failed++
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	r.statuses[fmt.Sprint(resp.StatusCode)]++
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode >= http.StatusInternalServerError {
		r.failed++ // a route or its backend is missing; other answers come from the workload
	}
}

func (m *mesh) verdict(targets []target, results map[target]*result) error {
	t := terminal.Table{Header: []string{"HOST", "PATH", "ANSWERS", "FAILED", "SLOWEST"}}
	failed, total, mistakes := 0, 0, 0
	for _, tg := range targets {
		r := results[tg]
		if r == nil {
			continue
		}
		var answers []string
		for _, status := range slices.Sorted(maps.Keys(r.statuses)) {
			answers = append(answers, fmt.Sprintf("%s × %d", status, r.statuses[status]))
			total += r.statuses[status]
		}
		failed += r.failed
		style := terminal.Good
		if r.failed > 0 {
			style = terminal.Bad
		}
		host := tg.host
		if host == "" {
			host = "*"
		}
		t.Rows = append(t.Rows, []terminal.Cell{
			{Text: host}, {Text: tg.path}, {Text: strings.Join(answers, ", ")}, {
				Text: fmt.Sprint(r.failed), Style: style,
			}, {
				Text: r.slowest.Round(time.Millisecond).String(),
			},
		})
	}
	m.out.Table(t)
	for _, p := range m.plane.Problems() {
		m.out.Paragraph("", styleOf(p.Severity), p.String())
		if p.Severity == source.Error {
			mistakes++
		}
	}
	if failed > 0 || mistakes > 0 {
		m.out.Line(
			"%s: %d of %d requests failed, %s in the manifests", m.out.Paint(terminal.Bad,
				"FAILED"), failed, total, formatCount(
				mistakes, "error", "errors",
			),
		)
		return errFailed
	}
	m.out.Line("%s: %d requests, none failed", m.out.Paint(terminal.Good, "OK"), total)
	return nil
}
