package meshstats

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// family is one metric with all its series.
type family struct {
	name, kind string
	bounds     []string           // "le" of the buckets of a histogram, as Envoy has them
	series     map[string]*series // by labels as text
	labels     map[string]string  // labels as text, by the tag that they follow from
}

// series is one line of a counter, or the lines of a histogram.
type series struct {
	value   float64 // of a counter; the sum of a histogram
	count   float64
	buckets []float64
}

func newFamily(name, kind string) *family {
	return &family{name: name, kind: kind, series: map[string]*series{}, labels: map[string]string{}}
}

// add adds a line, such as `NAME_bucket{fields="…",le="5"} 3`. It reports false for one that it
// leaves out.
func (f *family) add(line string, self Self) bool {
	s, ok := readSample(line)
	if !ok {
		return false
	}
	labels, known := f.labels[s.tag]
	if !known {
		if labels, ok = labelsOf(f.name, s.tag, self); !ok {
			return false
		}
		if f.series[labels] == nil && len(f.series) >= maxSeries {
			return false
		}
		f.labels[s.tag] = labels
	}
	at := f.series[labels]
	if at == nil {
		at = &series{}
		f.series[labels] = at
	}
	switch suffix, ok := strings.CutPrefix(s.name, f.name); {
	case !ok:
		return false
	case suffix == "_bucket":
		f.addBucket(at, s)
	case suffix == "_count":
		at.count += s.value
	default: // "_sum", or a counter's
		at.value += s.value
	}
	return true
}

func (f *family) addBucket(to *series, s sample) {
	i := slices.Index(f.bounds, s.bound)
	if i < 0 {
		i, f.bounds = len(f.bounds), append(f.bounds, s.bound)
	}
	for len(to.buckets) <= i {
		to.buckets = append(to.buckets, 0)
	}
	to.buckets[i] += s.value
}

// exposition returns the metric as Prometheus reads it, sorted by labels. With the durations of
// requests comes how many there were.
func (f *family) exposition() []byte {
	var b bytes.Buffer
	keys := slices.Sorted(maps.Keys(f.series))
	if f.name == proxystats.Duration {
		b.WriteString("# TYPE " + proxystats.RequestsTotal + " counter\n")
		for _, labels := range keys {
			writeSample(&b, proxystats.RequestsTotal, labels, f.series[labels].count)
		}
	}
	b.WriteString("# TYPE " + f.name + " " + f.kind + "\n")
	for _, labels := range keys {
		s := f.series[labels]
		if f.kind != "histogram" {
			writeSample(&b, f.name, labels, s.value)
			continue
		}
		for i, v := range s.buckets {
			writeSample(&b, f.name+"_bucket", labels+`,le="`+f.bounds[i]+`"`, v)
		}
		writeSample(&b, f.name+"_sum", labels, s.value)
		writeSample(&b, f.name+"_count", labels, s.count)
	}
	return b.Bytes()
}

func writeSample(b *bytes.Buffer, name, labels string, value float64) {
	b.WriteString(name)
	b.WriteByte('{')
	b.WriteString(labels)
	b.WriteString("} ")
	b.Write(strconv.AppendFloat(b.AvailableBuffer(), value, 'g', -1, 64))
	b.WriteByte('\n')
}

// sample is one line.
type sample struct {
	name, tag, bound string
	value            float64
}

// readSample reads a line with the one tag of proxystats.
func readSample(line string) (s sample, ok bool) {
	var rest string
	if s.name, rest, ok = strings.Cut(line, "{"+proxystats.Tag+`="`); !ok {
		return s, false
	}
	if s.tag, rest, ok = unquote(rest); !ok {
		return s, false
	}
	if bound, has := strings.CutPrefix(rest, `,le="`); has {
		if s.bound, rest, ok = unquote(bound); !ok {
			return s, false
		}
	}
	if rest, ok = strings.CutPrefix(rest, "} "); !ok {
		return s, false
	}
	var err error
	s.value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
	return s, err == nil
}

// unquote returns the text before the next quotation mark, and what stands behind the mark.
func unquote(text string) (value, rest string, ok bool) {
	escaped := false
	for i := 0; i < len(text); i++ {
		switch {
		case escaped:
			escaped = false
		case text[i] == '\\':
			escaped = true
		case text[i] == '"':
			return unescape.Replace(text[:i]), text[i+1:], true
		}
	}
	return "", "", false
}
