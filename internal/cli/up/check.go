package up

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/inspect"
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
	refused  int // by a policy or by the workload: 401 and 403
	slowest  time.Duration
}

// totals are the results of all targets together.
type totals struct{ requests, failed, refused, mistakes int }

// hasFailed reports whether the mesh does not work. A policy may refuse plain requests on purpose,
// but a mesh that refuses all of them has shown nothing that works.
func (t totals) hasFailed() bool {
	return t.failed > 0 || t.mistakes > 0 || t.refused == t.requests
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
	targets := checkTargets(s.LoadBalancers, m.snapshot())
	if len(targets) == 0 {
		m.out.Line("%s: no VirtualService is bound to a Gateway that is open: there is nothing to ask for", m.o.dir)
		return command.ErrFailed
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
	return command.ErrFailed
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
		m.out.Paragraph("  ", inspect.SeverityStyle(p.Severity), p.String())
	}
	return command.ErrFailed
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
	r.count(resp.StatusCode)
}

// count counts an answer.
func (r *result) count(status int) {
	r.statuses[fmt.Sprint(status)]++
	switch {
	case status == http.StatusNotFound, status >= http.StatusInternalServerError:
		r.failed++ // a route or its backend is missing
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		r.refused++
	} // other answers come from the workload
}

func (m *mesh) verdict(targets []target, results map[target]*result) error {
	sum := printAnswers(m.out, targets, results)
	for _, p := range m.plane.Problems() {
		m.out.Paragraph("", inspect.SeverityStyle(p.Severity), p.String())
		if p.Severity == source.Error {
			sum.mistakes++
		}
	}
	return printVerdict(m.out, sum)
}

// printAnswers prints a row for each target that was asked. Targets refuse rarely, so the column
// for that is there only if one does.
func printAnswers(out *terminal.Writer, targets []target, results map[target]*result) (sum totals) {
	refuses := false
	for _, r := range results {
		refuses = refuses || r.refused > 0
	}
	t := terminal.Table{Header: []string{"HOST", "PATH", "ANSWERS", "FAILED"}}
	if refuses {
		t.Header = append(t.Header, "REFUSED")
	}
	t.Header = append(t.Header, "SLOWEST")
	for _, tg := range targets {
		r := results[tg]
		if r == nil {
			continue
		}
		var answers []string
		for _, status := range slices.Sorted(maps.Keys(r.statuses)) {
			answers = append(answers, fmt.Sprintf("%s × %d", status, r.statuses[status]))
			sum.requests += r.statuses[status]
		}
		sum.failed += r.failed
		sum.refused += r.refused
		row := []terminal.Cell{
			{Text: cmp.Or(tg.host, "*")}, {Text: tg.path}, {Text: strings.Join(answers, ", ")},
			countCell(r.failed, terminal.Bad),
		}
		if refuses {
			row = append(row, countCell(r.refused, terminal.Warn))
		}
		t.Rows = append(t.Rows, append(row, terminal.Cell{Text: r.slowest.Round(time.Millisecond).String()}))
	}
	out.Table(t)
	return sum
}

// countCell shows a count, in a style if it is not what one wants.
func countCell(n int, unwanted terminal.Style) terminal.Cell {
	if n > 0 {
		return terminal.Cell{Text: fmt.Sprint(n), Style: unwanted}
	}
	return terminal.Cell{Text: fmt.Sprint(n), Style: terminal.Good}
}

func printVerdict(out *terminal.Writer, sum totals) error {
	refused := ""
	if sum.refused > 0 {
		refused = fmt.Sprintf(", %d refused (401 or 403)", sum.refused)
	}
	if sum.hasFailed() {
		out.Line("%s: %d of %d requests failed%s, %s in the manifests", out.Paint(terminal.Bad, "FAILED"),
			sum.failed, sum.requests, refused, terminal.Count(sum.mistakes, "error", "errors"))
		return command.ErrFailed
	}
	out.Line("%s: %d requests, none failed%s", out.Paint(terminal.Good, "OK"), sum.requests, refused)
	return nil
}
