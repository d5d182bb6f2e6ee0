package up

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/inspect"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// tableWait is how long the table waits for everything to be ready. After that it shows what is
// not.
const tableWait = 15 * time.Second

// show prints the table of pods, and then a line for each event, until ctx ends.
func (m *mesh) show(ctx context.Context) error {
	m.out.Line("lateen %s: %s", build.Version, m.o.dir)
	printed := false
	started := make(chan *local.Snapshot, 1)
	go func() {
		wait, cancel := context.WithTimeout(ctx, tableWait)
		defer cancel()
		s, _ := m.inSync(wait) // the table shows what is not ready
		started <- s
	}()
	for {
		select {
		case <-ctx.Done():
			m.out.Line("stopping")
			return nil
		case s := <-started:
			if ctx.Err() != nil {
				continue
			}
			m.table(s)
			m.out.Line("Edit the manifests and watch. Ctrl-C ends it all.")
			m.out.Line("")
			printed = true
		case n := <-m.notices:
			if printed || n.Bad { // before that, the progress line shows what is ready
				m.notice(n)
			}
		case p := <-m.problems:
			m.problem(p)
		case r := <-m.plane.Pushes():
			if printed {
				m.push(r)
			}
		}
	}
}

// inSync waits until everything is ready and every proxy has accepted its configuration, and shows
// progress.
func (m *mesh) inSync(ctx context.Context) (*local.Snapshot, error) {
	showing, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		m.progress(showing)
	}()
	defer func() {
		stop()
		<-shown
	}()
	s, err := m.runtime.Await(ctx, (*local.Snapshot).Ready)
	if err != nil {
		return s, err
	}
	return s, m.runtime.Settle(ctx)
}

// progress shows how many pods are ready, until ctx ends.
func (m *mesh) progress(ctx context.Context) {
	defer m.out.Progress("")
	last := ""
	for ctx.Err() == nil {
		s, err := m.runtime.Await(ctx, func(s *local.Snapshot) bool { return progressText(s) != last })
		if err != nil {
			return
		}
		last = progressText(s)
		m.out.Progress(last)
	}
}

func progressText(s *local.Snapshot) string {
	if !s.Synced {
		return "reading manifests"
	}
	ready := 0
	var waiting []string
	for _, p := range s.Pods {
		if p.Ready {
			ready++
		} else {
			waiting = append(waiting, p.Name)
		}
	}
	text := fmt.Sprintf("starting: %d of %d pods ready", ready, len(s.Pods))
	if len(waiting) > 0 {
		text += "; waiting for " + waiting[0]
	}
	return text
}

// table prints what runs and how to reach it.
func (m *mesh) table(s *local.Snapshot) {
	t := terminal.Table{Header: []string{"NAMESPACE", "POD", "READY", "ADDRESS", "PROCESS"}}
	if c := s.ControlPlane; c != nil {
		ready := terminal.Cell{Text: "yes", Style: terminal.Good}
		if !c.Ready {
			ready = terminal.Cell{Text: "no", Style: terminal.Warn}
		}
		t.Rows = append(t.Rows, []terminal.Cell{
			{Text: "-"}, {Text: c.Name}, ready, {Text: m.xds.Addr().String()}, {Text: processNumber(*c)},
		})
	}
	for _, p := range s.Pods {
		ready := terminal.Cell{Text: "yes", Style: terminal.Good}
		if !p.Ready {
			ready = terminal.Cell{Text: string(p.State), Style: styleOf(p.State)}
		}
		t.Rows = append(t.Rows, []terminal.Cell{
			{Text: p.Namespace}, {Text: p.Name}, ready, {Text: addressOf(p)}, {Text: processOf(p)},
		})
	}
	if len(t.Rows) > 0 {
		m.out.Table(t)
	}
	if len(s.Pods) == 0 {
		m.out.Line("%s: nothing to run yet: want a Deployment or a Pod", m.o.dir)
	}
	m.unready(s)
	for _, e := range s.LoadBalancers {
		if e.Address.IsValid() && e.HTTP {
			m.out.Line("gateway  %s   (%s/%s)", m.out.Paint(terminal.Bold, e.URL()), e.Namespace, e.Service)
		}
	}
	for _, p := range s.ClosedPorts {
		m.out.Paragraph("gateway  ", terminal.Bad, p.Object.String()+": "+p.Detail())
	}
	m.out.Line("metrics  http://%s/metrics", m.monitoring.Addr())
	if m.observer != nil {
		m.out.Line("prometheus  http://%s", m.observer.Listen)
		m.out.Line("dashboards  %s", inspect.DashboardsOf(m.monitoring.Addr().String(), "http://"+m.observer.Listen))
	}
}

// unready prints why each pod that is not ready is not.
func (m *mesh) unready(s *local.Snapshot) {
	for _, p := range s.Pods {
		if !p.Ready {
			m.out.Paragraph("  ", styleOf(p.State), fmt.Sprintf("%s/%s: %s: %s", p.Namespace, p.Name, p.State, p.Why))
		}
	}
}

// styleOf returns how the state of a pod that is not ready is shown.
func styleOf(s local.PodState) terminal.Style {
	switch s {
	case local.Completed:
		return terminal.Good
	case local.Failed:
		return terminal.Bad
	default:
		return terminal.Warn
	}
}

// addressOf returns the address of a pod; one that was not started has none.
func addressOf(p local.PodStatus) string {
	if !p.Pod.IsValid() {
		return "-"
	}
	return p.Pod.String()
}

// processOf returns the PID of a pod's first process, which for a gateway is Envoy.
func processOf(p local.PodStatus) string {
	if len(p.Processes) == 0 {
		return "-"
	}
	return processNumber(p.Processes[0])
}

func processNumber(p local.ProcessStatus) string {
	if p.PID == 0 {
		return "-"
	}
	return fmt.Sprint(p.PID)
}

func (m *mesh) notice(n local.Notice) {
	style := terminal.Faint
	if n.Bad {
		style = terminal.Bad
	}
	m.printEvent(n.Time, style, n.String())
	for _, line := range n.Tail {
		m.out.Paragraph("          | ", terminal.Faint, line)
	}
}

// printEvent prints a line for an event, with its time.
func (m *mesh) printEvent(at time.Time, style terminal.Style, text string) {
	m.out.Paragraph(at.Format(time.TimeOnly)+"  ", style, text)
}

func (m *mesh) problem(p problemChange) {
	for _, a := range p.appeared {
		m.printEvent(time.Now(), inspect.SeverityStyle(a.Severity), a.String())
	}
	for _, a := range p.fixed {
		m.printEvent(time.Now(), terminal.Good, "mended: "+problemPlace(a))
	}
}

// problemPlace returns a problem without its message if its place is enough to identify it.
func problemPlace(p source.Problem) string {
	p.Want = ""
	if p.Path != "" {
		p.Message = ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(p.String(), p.Severity.String()+": "), ": ")
}

// push prints a line for a generation that every affected proxy has answered.
func (m *mesh) push(r fanout.Record) {
	text := fmt.Sprintf("push %d: %s → %s, %s, last ACK after %s", r.Generation, r.Cause, terminal.Count(
		r.Proxies, "proxy", "proxies",
	), terminal.Bytes(r.Bytes), r.Elapsed().Round(time.Millisecond))
	style := terminal.Plain
	if r.Refused > 0 {
		text += fmt.Sprintf("; %d refused something (lateen status)", r.Refused)
		style = terminal.Bad
	}
	m.printEvent(r.Finished, style, text)
}
