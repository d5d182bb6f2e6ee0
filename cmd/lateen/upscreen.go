package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/terminal"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// show prints what runs, and then a line for each thing that happens, until ctx ends.
func (m *mesh) show(ctx context.Context) error {
	m.out.Line("lateen %s: %s", version, m.o.dir)
	started, cancel := context.WithCancel(ctx)
	go m.progress(started)
	printed := false
	ready := make(chan *local.Snapshot, 1)
	go func() {
		if s, err := m.runtime.Await(ctx, (*local.Snapshot).Ready); err == nil {
			ready <- s
		}
	}()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			m.out.Line("stopping")
			return nil
		case s := <-ready:
			cancel()
			m.table(s)
			printed = true
		case n := <-m.notices:
			m.notice(n)
		case p := <-m.problems:
			m.problem(p)
		case r := <-m.pipeline.Pushes():
			if printed {
				m.push(r)
			}
		}
	}
}

// progress shows how many pods are ready until ctx ends.
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
	t := terminal.Table{Header: []string{"NAMESPACE", "POD", "READY", "ADDRESS", "RESTARTS"}}
	for _, p := range s.Pods {
		ready := terminal.Cell{Text: "yes", Style: terminal.Good}
		if !p.Ready {
			ready = terminal.Cell{Text: string(p.State), Style: terminal.Warn}
		}
		t.Rows = append(t.Rows, []terminal.Cell{
			{Text: p.Namespace}, {Text: p.Name}, ready, {Text: p.Pod.String()}, {Text: fmt.Sprint(p.Restarts)},
		})
	}
	m.out.Table(t)
	for _, e := range s.Entrances {
		if e.Address.IsValid() && e.HTTP {
			m.out.Line("gateway  %s   (%s/%s)", m.out.Paint(terminal.Bold, e.URL()), e.Namespace, e.Service)
		}
	}
	m.out.Line("metrics  %s", m.metrics)
	m.out.Line("Edit the manifests and watch. Ctrl-C ends it all.")
}

func (m *mesh) notice(n local.Notice) {
	style := terminal.Faint
	if n.Bad {
		style = terminal.Bad
	}
	m.out.Line("%s  %s", n.Time.Format(time.TimeOnly), m.out.Paint(style, n.String()))
	for _, line := range n.Tail {
		m.out.Line("          | %s", line)
	}
}

func (m *mesh) problem(p problemChange) {
	for _, a := range p.appeared {
		style := terminal.Warn
		if a.Severity == source.Error {
			style = terminal.Bad
		}
		m.out.Line("%s  %s", time.Now().Format(time.TimeOnly), m.out.Paint(style, a.String()))
	}
	for _, a := range p.mended {
		m.out.Line("%s  %s", time.Now().Format(time.TimeOnly), m.out.Paint(terminal.Good, "mended: "+a.String()))
	}
}

// push prints one line on a generation that every proxy it touched has settled.
func (m *mesh) push(r fanout.Record) {
	text := fmt.Sprintf("push %d: %s → %s, %s, last ACK after %s", r.Generation, r.Cause, count(r.Proxies, "proxy", "proxies"), bytes(r.Bytes), r.Elapsed().Round(time.Millisecond))
	style := terminal.Plain
	if r.Refused > 0 {
		text += fmt.Sprintf("; %d refused something (lateen status)", r.Refused)
		style = terminal.Bad
	}
	m.out.Line("%s  %s", r.Finished.Format(time.TimeOnly), m.out.Paint(style, text))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// bytes is a size for people: "512 B", "1.2 kB", "3.4 MB".
func bytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1000), ".0") + " kB"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + " MB"
}
