package jmeter

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Kind is what the field kind of a report says.
const Kind = "jmeter"

// Report is what came of one or more JMeters that ran a plan at the same time. Load is set by who
// has run them.
type Report struct {
	Kind    string `json:"kind"`
	Lateen  string `json:"lateen"`
	Command string `json:"command"`
	// Start is that of the first request. Seconds is from there to the last answer.
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Load    *Load     `json:"load,omitempty"`
	// All is all requests together, and Transactions are those of each name, sorted by it.
	All          Summary   `json:"all"`
	Transactions []Summary `json:"transactions"`
	// Results are the requests of each JMeter, by its file.
	Results []Summary `json:"results"`
	// Why is the reason of the first failure in the first file that has one.
	Why   string   `json:"why,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Load is what JMeters were told to send.
type Load struct {
	JMeter string `json:"jmeter"` // its version
	Target string `json:"target"`
	// Clients are those of all processes together.
	Processes int             `json:"processes"`
	Clients   int             `json:"clients"`
	Think     measure.Seconds `json:"think"`
	Duration  measure.Seconds `json:"duration"`
}

// Summary is a number of requests. Times are from the request to the end of its answer, as JMeter
// measures them, in whole milliseconds; percentiles are by nearest rank.
type Summary struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Failed   int    `json:"failed"` // of the requests
	// PerSecond is over the time of all requests of the report.
	PerSecond float64         `json:"perSecond"`
	Mean      measure.Seconds `json:"mean"`
	P50       measure.Seconds `json:"p50"`
	P90       measure.Seconds `json:"p90"`
	P99       measure.Seconds `json:"p99"`
	Max       measure.Seconds `json:"max"`
}

// tally counts requests.
type tally struct {
	failed      int
	times       map[time.Duration]int // how many took so long
	first, last int64                 // the start of the first and the end of the last, in milliseconds since 1970
}

func newTally() *tally { return &tally{times: map[time.Duration]int{}, first: math.MaxInt64} }

func (t *tally) add(s sample) {
	t.times[s.elapsed]++
	if s.failed {
		t.failed++
	}
	t.first, t.last = min(t.first, s.start), max(t.last, s.start+s.elapsed.Milliseconds())
}

// seconds is from the first request to the last answer, a millisecond at least.
func (t *tally) seconds() float64 { return float64(max(t.last-t.first, 1)) / 1000 }

// summary describes the requests, which were sent in so many seconds.
func (t *tally) summary(name string, seconds float64) Summary {
	s := Summary{Name: name, Failed: t.failed}
	times, sum := slices.Sorted(maps.Keys(t.times)), 0.0
	for _, d := range times {
		s.Requests += t.times[d]
		sum += float64(t.times[d]) * d.Seconds()
	}
	if s.Requests == 0 {
		return s
	}
	s.PerSecond = float64(s.Requests) / seconds
	s.Mean = measure.Seconds(sum / float64(s.Requests) * float64(time.Second))
	for q, at := range map[float64]*measure.Seconds{0.5: &s.P50, 0.9: &s.P90, 0.99: &s.P99, 1: &s.Max} {
		rank := int(math.Ceil(q * float64(s.Requests)))
		for _, d := range times {
			if rank -= t.times[d]; rank <= 0 {
				*at = measure.Seconds(d)
				break
			}
		}
	}
	return s
}

// merger adds up files.
type merger struct {
	all    *tally
	of     map[string]*tally // by transaction
	files  []*tally
	report Report
}

// Merge reads JTL files of JMeters that ran at the same time, on one host or several.
func Merge(files ...string) (Report, error) {
	m := merger{all: newTally(), of: map[string]*tally{}, report: Report{Kind: Kind}}
	var infos []os.FileInfo
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return Report{}, err
		}
		for i, other := range infos {
			if os.SameFile(info, other) {
				return Report{}, fmt.Errorf("%s and %s are the same file: want the result of each JMeter once",
					files[i], name)
			}
		}
		infos = append(infos, info)
		if err := m.add(name); err != nil {
			return Report{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return m.finish(files)
}

// add reads one file.
func (m *merger) add(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	t := newTally()
	cutAt, err := readJTL(file, func(s sample) {
		if m.of[s.transaction] == nil {
			m.of[s.transaction] = newTally()
		}
		for _, t := range []*tally{t, m.all, m.of[s.transaction]} {
			t.add(s)
		}
		if s.failed && m.report.Why == "" {
			m.report.Why = s.why
		}
	})
	_ = file.Close() // it was read
	if err != nil {
		return err
	}
	if cutAt > 0 {
		m.report.Notes = append(m.report.Notes, fmt.Sprintf("%s is cut off in line %d, which is not counted: "+
			"its JMeter did not end by itself, or the file was copied before it had.", filepath.Base(name), cutAt))
	}
	if len(t.times) == 0 {
		return errors.New("it has no requests: its JMeter has sent none")
	}
	m.files = append(m.files, t)
	return nil
}

func (m *merger) finish(files []string) (Report, error) {
	r := &m.report
	if len(files) == 0 {
		return Report{}, errors.New("there are no files to merge")
	}
	r.Start, r.Seconds = time.UnixMilli(m.all.first).UTC(), m.all.seconds()
	r.All = m.all.summary("all", r.Seconds)
	for _, name := range slices.Sorted(maps.Keys(m.of)) {
		r.Transactions = append(r.Transactions, m.of[name].summary(name, r.Seconds))
	}
	begin, end := m.all.first, m.all.last // of the time in which all ran
	for i, t := range m.files {
		r.Results = append(r.Results, t.summary(files[i], r.Seconds))
		begin, end = max(begin, t.first), min(end, t.last)
	}
	if common := float64(max(end-begin, 0)) / 1000; common < leastCommon*r.Seconds {
		r.Notes = append(r.Notes, fmt.Sprintf("All JMeters sent requests together in %.1f of %.1f s only: start them "+
			"at the same time, for longer, on hosts whose clocks agree. Requests a second are over the whole time.",
			common, r.Seconds))
	}
	return *r, nil
}

// leastCommon is the share of the time in which all JMeters should run.
const leastCommon = 0.8

// Table is all requests, and those of each transaction. Times are in milliseconds.
func (r Report) Table() terminal.Table {
	t := terminal.Table{Header: []string{"transaction", "requests", "failed", "/s", "mean", "p50", "p90", "p99"}}
	for _, s := range append(slices.Clone(r.Transactions), r.All) {
		t.Row(s.Name, strconv.Itoa(s.Requests), strconv.Itoa(s.Failed), fmt.Sprintf("%.1f", s.PerSecond),
			fmt.Sprintf("%.1f", 1000*s.Mean.Float()), millis(s.P50), millis(s.P90), millis(s.P99))
	}
	return t
}

// ResultTable is the requests of each JMeter.
func (r Report) ResultTable() terminal.Table {
	t := terminal.Table{Header: []string{"JMeter", "requests", "failed", "/s", "mean", "p99"}}
	for _, s := range r.Results {
		t.Row(s.Name, strconv.Itoa(s.Requests), strconv.Itoa(s.Failed), fmt.Sprintf("%.1f", s.PerSecond),
			fmt.Sprintf("%.1f", 1000*s.Mean.Float()), millis(s.P99))
	}
	return t
}

func millis(s measure.Seconds) string { return strconv.FormatInt(time.Duration(s).Milliseconds(), 10) }

// Title says in a sentence or two what the report is of.
func (r Report) Title() string {
	text := fmt.Sprintf("%s in %.1f s, %.1f a second. Times are in milliseconds.",
		terminal.Count(r.All.Requests, "request", "requests"), r.Seconds, r.All.PerSecond)
	if l := r.Load; l != nil {
		processes := terminal.Count(l.Processes, "process", "processes")
		clients := terminal.Count(l.Clients, "client", "clients")
		return fmt.Sprintf("JMeter %s (%s) to %s: %s, think time %v. %s", l.JMeter, processes, l.Target, clients,
			time.Duration(l.Think), text)
	}
	return fmt.Sprintf("%s. %s", terminal.Count(len(r.Results), "result", "results of JMeters"), text)
}
