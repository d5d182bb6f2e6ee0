package model

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// Labels that mean something by their name: where a pod runs, and that its endpoints take nothing new.
const (
	RegionLabel   = "topology.kubernetes.io/region"
	ZoneLabel     = "topology.kubernetes.io/zone"
	SubzoneLabel  = "topology.istio.io/subzone"
	HostnameLabel = "kubernetes.io/hostname"
	DrainingLabel = "istio.io/draining"
	// TLSModeLabel with the value TLSModeIstio is what pods have that take mutual TLS of the mesh.
	TLSModeLabel = "security.istio.io/tlsMode"
	TLSModeIstio = "istio"
)

// Labels is a set of labels (or a selector over them) in one canonical, comparable form: sorted, so that equal sets are
// equal values and may stand in an input struct.
type Labels struct{ text string }

// LabelsOf makes Labels of a map.
func LabelsOf(m map[string]string) Labels {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(m[k])
		b.WriteByte('\n')
	}
	return Labels{unique.Make(b.String()).Value()} // replicas have equal labels
}

// IsEmpty tells that there are none.
func (l Labels) IsEmpty() bool { return l.text == "" }

// Map is a fresh map of the labels.
func (l Labels) Map() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(l.text) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		m[k] = v
	}
	return m
}

// Pairs yields the labels as "key=value", in their order.
func (l Labels) Pairs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(l.text) {
			if !yield(strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	}
}

// FirstPair is the first of Pairs, empty when there are none. Whatever l selects has it, so that what selects some labels is
// found by their pairs.
func (l Labels) FirstPair() string {
	first, _, _ := strings.Cut(l.text, "\n")
	return first
}

// Get finds one label.
func (l Labels) Get(key string) (string, bool) {
	for line := range strings.Lines(l.text) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if k == key {
			return v, true
		}
	}
	return "", false
}

// With is the set with one label more, or another value for it.
func (l Labels) With(key, value string) Labels {
	m := l.Map()
	m[key] = value
	return LabelsOf(m)
}

// Only are those of the labels that have one of these keys.
func (l Labels) Only(keys iter.Seq[string]) Labels {
	some := map[string]string{}
	for k := range keys {
		if v, ok := l.Get(k); ok {
			some[k] = v
		}
	}
	return LabelsOf(some)
}

// Selects tells whether l, read as a selector, matches o: each of its labels is in o with the same value. The empty
// selector matches everything.
func (l Labels) Selects(o Labels) bool {
	for line := range strings.Lines(l.text) {
		if !o.hasLine(line) {
			return false
		}
	}
	return true
}

func (l Labels) hasLine(line string) bool {
	for own := range strings.Lines(l.text) {
		if own == line {
			return true
		}
	}
	return false
}

// String is the form for people: "app=reviews,version=v1".
func (l Labels) String() string {
	return strings.ReplaceAll(strings.TrimSuffix(l.text, "\n"), "\n", ",")
}
