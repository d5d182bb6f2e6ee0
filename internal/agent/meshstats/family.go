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
	labels     map[string]*labels // by the tags that they follow from
}

// series is one line of a counter, or the lines of a histogram.
type series struct {
	value   float64 // of a counter; the sum of a histogram
	count   float64
	buckets []float64
	// counts says of durations that they count requests, of which there are requests.
	counts   bool
	requests float64
}

func newFamily(name, kind string) *family {
	return &family{name: name, kind: kind, series: map[string]*series{}, labels: map[string]*labels{}}
}

// add adds a line, such as `NAME_bucket{fields="…",le="5"} 3`. It reports false for one that it
// leaves out.
func (f *family) add(line string, self Self) bool {
	s, ok := readSample(line)
	if !ok {
		return false
	}
	l := f.labels[s.tags]
	if l == nil {
		if l, ok = labelsOf(f.name, s, self); !ok {
			return false
		}
		if f.series[l.text] == nil && len(f.series) >= maxSeries {
			return false
		}
		f.labels[s.tags] = l
	}
	at := f.at(l.text)
	switch suffix, ok := strings.CutPrefix(s.name, f.name); {
	case !ok:
		return false
	case suffix == "_bucket":
		f.addBucket(at, s)
	case suffix == "_count":
		at.count += s.value
		if !l.uncounted {
			at.counts, at.requests = true, at.requests+s.value
		}
	case s.ofMessages:
		at.value += s.value * proxystats.Messages(f.name, s.messages)
	default: // "_sum", or a counter's
		at.value += s.value
	}
	return true
}

// at returns the series with some labels.
func (f *family) at(labels string) *series {
	if f.series[labels] == nil {
		f.series[labels] = &series{}
	}
	return f.series[labels]
}

// requests returns how many requests there were, by the durations.
func (f *family) requests() *family {
	counted := newFamily(proxystats.RequestsTotal, "counter")
	for labels, s := range f.series {
		if s.counts {
			counted.at(labels).value = s.requests
		}
	}
	return counted
}

// merge adds the series of another counter.
func (f *family) merge(other *family) *family {
	if other != nil {
		for labels, s := range other.series {
			f.at(labels).value += s.value
		}
	}
	return f
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

// exposition returns the metric as Prometheus reads it, sorted by labels; empty without any series.
func (f *family) exposition() []byte {
	if len(f.series) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("# TYPE " + f.name + " " + f.kind + "\n")
	for _, labels := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[labels]
		if f.kind != "histogram" {
			writeSample(&b, f.name, labels, s.value)
			continue
		}
		for i, v := range s.buckets {
			writeSample(&b, f.name+"_bucket", withBound(labels, f.bounds[i]), v)
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

func withBound(labels, bound string) string {
	if labels != "" {
		labels += ","
	}
	return labels + `le="` + bound + `"`
}

// sample is one line.
type sample struct {
	name, bound string
	tags        string // all but the bound, as they are written
	fields      string // of proxystats
	messages    string // of gRPC; ofMessages says that the statistic has them
	ofMessages  bool
	custom      []label
	value       float64
}

// label is a tag that a Telemetry sets.
type label struct{ name, value string }

// readSample reads a line with the tag of proxystats, and with those of Telemetries behind it.
func readSample(line string) (s sample, ok bool) {
	var rest string
	if s.name, rest, ok = strings.Cut(line, "{"); !ok {
		return s, false
	}
	tags := rest
	for rest != "" && rest[0] != '}' {
		name, behind, _ := strings.Cut(rest, `="`)
		value, behind, ok := unquote(behind)
		if !ok {
			return s, false
		}
		switch name {
		case "le":
			s.bound = value
		case proxystats.Tag:
			s.fields = value
		case proxystats.MessagesTag:
			s.messages, s.ofMessages = value, true
		default:
			s.custom = append(s.custom, label{name, value})
		}
		rest = strings.TrimPrefix(behind, ",")
		if name != "le" {
			s.tags = tags[:len(tags)-len(behind)]
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
