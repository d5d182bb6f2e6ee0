package metrics

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Registry holds the metrics of one agent. Its methods may be called at the same time.
type Registry struct {
	mu       sync.Mutex
	families []*family
}

type family struct {
	name, help, kind string
	samples          []sample
	histogram        *Histogram // in place of samples
}

type sample struct {
	labels string // `{type="cancel"}`, or empty
	value  func() float64
}

// Counter counts up.
type Counter struct{ n atomic.Uint64 }

// Inc counts one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add counts n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Value is what was counted.
func (c *Counter) Value() uint64 { return c.n.Load() }

// Counter returns a counter with pairs of names and values of labels. To ask for it again returns
// another one: whoever counts keeps it.
func (r *Registry) Counter(name, help string, labels ...string) *Counter {
	c := &Counter{}
	r.add(family{name: name, help: help, kind: "counter"}, sample{
		labels: encode(labels),
		value:  func() float64 { return float64(c.Value()) },
	})
	return c
}

// Gauge registers a value that is asked for whenever somebody reads the metrics.
func (r *Registry) Gauge(name, help string, value func() float64, labels ...string) {
	r.add(family{name: name, help: help, kind: "gauge"}, sample{encode(labels), value})
}

// CounterFunc is as Gauge, of a value that only grows.
func (r *Registry) CounterFunc(name, help string, value func() float64, labels ...string) {
	r.add(family{name: name, help: help, kind: "counter"}, sample{encode(labels), value})
}

// add adds a sample to the family of that name, which it registers the first time.
func (r *Registry) add(f family, s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, found := r.find(f.name)
	if !found {
		r.families = slices.Insert(r.families, at, &f)
	}
	r.families[at].samples = append(r.families[at].samples, s)
}

func (r *Registry) find(name string) (int, bool) {
	return slices.BinarySearchFunc(r.families, name, func(f *family, name string) int {
		return cmp.Compare(f.name, name)
	})
}

// escapes are those of the values of labels.
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func encode(labels []string) string {
	if len(labels) < 2 {
		return ""
	}
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escapes.Replace(labels[i+1])+`"`)
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// Histogram counts values by the bounds that they do not exceed.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Uint64   // the bits of a float64
}

// Histogram returns a histogram with ascending bounds.
func (r *Registry) Histogram(name, help string, bounds ...float64) *Histogram {
	h := &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _ := r.find(name)
	r.families = slices.Insert(r.families, at, &family{name: name, help: help, kind: "histogram", histogram: h})
	return h
}

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	at, _ := slices.BinarySearch(h.bounds, v)
	h.counts[at].Add(1)
	for {
		before := h.sum.Load()
		if h.sum.CompareAndSwap(before, math.Float64bits(math.Float64frombits(before)+v)) {
			return
		}
	}
}

func (h *Histogram) write(b *bufio.Writer, name string) {
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = format(h.bounds[i])
		}
		_, _ = b.WriteString(name + `_bucket{le="` + bound + `"} ` + strconv.FormatUint(total, 10) + "\n")
	}
	_, _ = b.WriteString(name + "_sum " + format(math.Float64frombits(h.sum.Load())) + "\n")
	_, _ = b.WriteString(name + "_count " + strconv.FormatUint(total, 10) + "\n")
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Write writes all metrics in the text format, by name.
func (r *Registry) Write(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bufio.NewWriter(w)
	for _, f := range r.families {
		_, _ = b.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
		for _, s := range f.samples {
			_, _ = b.WriteString(f.name + s.labels + " " + format(s.value()) + "\n")
		}
		if f.histogram != nil {
			f.histogram.write(b, f.name)
		}
	}
	return b.Flush()
}
