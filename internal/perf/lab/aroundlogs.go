package lab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
)

const (
	// logWindow is how long proxies are measured in each of logRounds.
	logWindow = 3 * time.Second
	logRounds = 2
	// logSample is how many lines of a proxy are kept at most.
	logSample = 2000
)

// logSetting is a row: a knob of lateen perf data-plane.
type logSetting struct {
	name, knob string
	first      byte // of its lines; 0 for no lines
	published  string
}

func logSettings() []logSetting {
	return []logSetting{
		{name: "no access logs", knob: dataplane.KnobOff, published: "0.5"},
		{name: "text", knob: dataplane.KnobTextLogs, first: '[', published: "1"},
		{name: "JSON", knob: dataplane.KnobJSONLogs, first: '{'},
	}
}

func logTableOf() Table {
	t := Table{Title: "Access logs: CPU for 1,000 requests a second", Columns: []Column{
		{"the client's proxy", Cores}, {"of it for 1,000 lines", Seconds}, {"rsyslogd for 1,000 lines", Seconds},
		{"proxy and shipper", Cores}, {"memory of rsyslogd", Bytes}, {"1,000 lines", Bytes},
	}}
	for _, s := range logSettings() {
		t.Rows = append(t.Rows, row(s.name, len(t.Columns), "", "", "", s.published))
	}
	return t
}

// measureLogs fills the table of access logs.
func (r *run) measureLogs(ctx context.Context) error {
	dir := filepath.Join(r.StateDir, "logs")
	report, err := dataplane.RunKnobs(ctx, r.logOptions(dir))
	if err != nil {
		return err
	}
	if r.Tools.Rsyslogd == "" {
		r.note("What shipping takes is not measured, since there is no rsyslogd: make rsyslogd puts it into .tools.")
	}
	without := math.NaN()
	for i, s := range logSettings() {
		at := slices.IndexFunc(report.Knobs, func(k dataplane.KnobResult) bool { return k.Name == s.knob })
		proxy := report.Knobs[at].Caller
		if s.first == 0 {
			without = proxy
			r.tables[logTable].put(i, proxy, 0, 0, proxy)
			continue
		}
		lines, err := accessLines(dir, s.first)
		if err != nil {
			return err
		}
		size := 0
		for _, l := range lines {
			size += len(l)
		}
		shipper, memory, err := r.ship(ctx, s.name, lines)
		if err != nil {
			return err
		}
		r.tables[logTable].put(i, proxy, max(0, proxy-without), shipper, proxy+shipper, memory,
			1000*float64(size)/float64(len(lines)))
	}
	r.note("Access logs: the published figures are of a sidecar of Istio 0.7.1 without and with access logs, of " +
		"which fluentd beside it takes most. Proxies write lines to a file; rsyslogd reads such lines from a file " +
		"and sends them over TCP, without TLS and without parsing them, to a receiver that throws them away. " +
		"Shippers that parse lines take more. What lines cost a proxy is the difference of short rounds, which may " +
		"be less than their noise: lateen perf data-plane --knobs has more rounds, and an interval.")
	return nil
}

// logOptions say how proxies are measured with and without access logs.
func (r *run) logOptions(dir string) dataplane.Options {
	o := dataplane.Options{
		Envoy: r.Envoy, Self: r.Self, StateDir: dir, IstioVersion: istionames.Version, Version: r.Version,
		Paths: []string{dataplane.Sidecar}, Rounds: logRounds,
		Duration: max(time.Second/2, time.Duration(float64(logWindow)*r.Pause)),
		Knobs:    []string{dataplane.KnobTextLogs, dataplane.KnobJSONLogs}, Log: slog.New(slog.DiscardHandler),
		Progress: func(what string, done, all int) { r.Progress("access logs: "+what, done, all) },
	}
	presets := dataplane.Presets()
	presets[slices.IndexFunc(presets, func(p dataplane.Preset) bool { return p.Name == "aks" })].Set(&o)
	return o
}

// accessLines returns lines that the proxies below a directory have written, each with its end.
// They begin with a byte: "[" in text, "{" in JSON.
func accessLines(dir string, first byte) (lines [][]byte, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) != "istio-proxy.log" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it is read
		for s := bufio.NewScanner(f); len(lines) < logSample && s.Scan(); {
			if isAccessLine(s.Bytes(), first) {
				lines = append(lines, append(bytes.Clone(s.Bytes()), '\n'))
			}
		}
		return nil // a line that is too long ends the file; there are others
	})
	if err == nil && len(lines) == 0 {
		err = fmt.Errorf("no proxy below %s has written a line that begins with %q", dir, first)
	}
	return lines, err
}

// isAccessLine reports whether a line is of an access log. Those of Envoy's own log have a
// bracket behind the time, too, but no quotation mark behind it.
func isAccessLine(line []byte, first byte) bool {
	if len(line) == 0 || line[0] != first {
		return false
	}
	return first == '{' || bytes.Contains(line, []byte(`] "`))
}
