package meshstats

import (
	"bytes"
	"io"
	"strings"

	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

const (
	// envoyPrefix is what Envoy puts in front of the names of proxystats.
	envoyPrefix = "envoy_" + proxystats.Prefix + "_"
	// maxSeries bounds the series of one metric, and so the memory of a scrape: some 1 KB each.
	maxSeries = 4000
)

// Self is the proxy whose metrics are rewritten.
type Self struct {
	Workload  proxystats.Workload
	Principal string // "spiffe://…"; empty if it has none
}

// Writer takes Envoy's exposition and writes the other one. One goroutine uses it. It keeps
// one metric at a time, beside the number of requests.
type Writer struct {
	to      io.Writer
	self    Self
	line    []byte
	family  *family // that the lines belong to; nil for Envoy's own
	counted *family // requests that have a statistic of their own; it comes before durations
	dropped int
}

// NewWriter returns a Writer to another one.
func NewWriter(to io.Writer, self Self) *Writer { return &Writer{to: to, self: self} }

// Dropped is how many lines were left out, because they could not be read or were too many.
func (w *Writer) Dropped() int { return w.dropped }

// Write takes the next part of the exposition.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			w.line = append(w.line, p...)
			break
		}
		w.line = append(w.line, p[:end]...)
		p = p[end+1:]
		err := w.take(w.line)
		w.line = w.line[:0]
		if err != nil {
			return n - len(p), err
		}
	}
	return n, nil
}

// Close writes the last metrics. A last line without an end is left out.
func (w *Writer) Close() error {
	if err := w.end(); err != nil {
		return err
	}
	return w.write(w.counted)
}

func (w *Writer) take(line []byte) error {
	const typeComment = "# TYPE "
	if rest, ok := bytes.CutPrefix(line, []byte(typeComment)); ok {
		if err := w.end(); err != nil {
			return err
		}
		name, kind, _ := strings.Cut(string(rest), " ")
		if name, ours := strings.CutPrefix(name, envoyPrefix); ours {
			w.family = newFamily(name, kind)
			return nil
		}
	}
	if w.family != nil && bytes.HasPrefix(line, []byte(envoyPrefix)) {
		if !w.family.add(string(line[len(envoyPrefix):]), w.self) {
			w.dropped++
		}
		return nil
	}
	if _, err := w.to.Write(line); err != nil {
		return err
	}
	_, err := io.WriteString(w.to, "\n")
	return err
}

// end writes the metric under way.
func (w *Writer) end() error {
	f := w.family
	w.family = nil
	if f == nil {
		return nil
	}
	switch f.name {
	case proxystats.RequestsTotal:
		w.counted = f.merge(w.counted)
		return nil
	case proxystats.Duration:
		counted := f.requests().merge(w.counted)
		w.counted = nil
		if err := w.write(counted); err != nil {
			return err
		}
	}
	return w.write(f)
}

func (w *Writer) write(f *family) error {
	if f == nil {
		return nil
	}
	_, err := w.to.Write(f.exposition())
	return err
}
