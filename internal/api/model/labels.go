package model

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// Labels that mean something by their name: where a pod runs, and that its endpoints take nothing
// new.
const (
	RegionLabel   = "topology.kubernetes.io/region"
	ZoneLabel     = "topology.kubernetes.io/zone"
	SubzoneLabel  = "topology.istio.io/subzone"
	HostnameLabel = "kubernetes.io/hostname"
	DrainingLabel = "istio.io/draining"
	// TLSModeLabel with the value TLSModeIstio marks pods that accept mutual TLS of the mesh.
	TLSModeLabel = "security.istio.io/tlsMode"
	TLSModeIstio = "istio"
)

// HintsMark stands for the zone hints of an endpoint in lists of label keys. It is no valid key.
const HintsMark = "(for zones)"

// Labels that no two pods of a StatefulSet have in common: the pod's own name, and the number that
// it ends in.
const (
	PodNameLabel  = "statefulset.kubernetes.io/pod-name"
	PodIndexLabel = "apps.kubernetes.io/pod-index"
)

// Labels is a set of labels, or a selector over them, in one canonical, comparable form. Equal sets
// are equal values, so Labels may stand in a translation input.
//
// The text is sorted lines of "key=value". The pod's name is kept apart, and a line whose value
// follows from it has only the key. So replicas have equal texts although each has labels of its
// own, and share the memory of one.
type Labels struct{ text, pod string }

// LabelsOf makes Labels of a map.
func LabelsOf(m map[string]string) Labels {
	var b strings.Builder
	pod, named := m[PodNameLabel]
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(k)
		if follows, does := fromPodName(pod, k); !named || !does || follows != m[k] {
			b.WriteByte('=')
			b.WriteString(m[k])
		}
		b.WriteByte('\n')
	}
	return Labels{unique.Make(b.String()).Value(), pod}
}

// fromPodName returns the value of a label that follows from a pod's name; false for other labels.
func fromPodName(pod, key string) (string, bool) {
	switch key {
	case PodNameLabel:
		return pod, true
	case PodIndexLabel:
		return pod[strings.LastIndexByte(pod, '-')+1:], true
	}
	return "", false
}

// all yields the labels by key.
func (l Labels) all(yield func(key, value string) bool) {
	for line := range strings.Lines(l.text) {
		k, v, whole := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !whole {
			v, _ = fromPodName(l.pod, k)
		}
		if !yield(k, v) {
			return
		}
	}
}

// IsEmpty reports whether there are no labels.
func (l Labels) IsEmpty() bool { return l.text == "" }

// Map returns the labels as a new map.
func (l Labels) Map() map[string]string {
	return maps.Collect(l.all)
}

// Pairs yields the labels as "key=value", in their order.
func (l Labels) Pairs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(l.text) {
			pair := strings.TrimSuffix(line, "\n")
			if !strings.Contains(pair, "=") {
				value, _ := fromPodName(l.pod, pair)
				pair += "=" + value
			}
			if !yield(pair) {
				return
			}
		}
	}
}

// FirstPair returns the first of Pairs, or "". Everything that l selects has this pair, so an index
// by pairs finds the selectors of given labels.
func (l Labels) FirstPair() string {
	for pair := range l.Pairs() {
		return pair
	}
	return ""
}

// Get returns the value of one label.
func (l Labels) Get(key string) (string, bool) {
	for line := range strings.Lines(l.text) {
		switch rest, found := strings.CutPrefix(line, key); {
		case found && rest == "\n":
			return fromPodName(l.pod, key)
		case found && strings.HasPrefix(rest, "="):
			return rest[1 : len(rest)-1], true
		}
	}
	return "", false
}

// With returns the set with one label added or replaced.
func (l Labels) With(key, value string) Labels {
	m := l.Map()
	m[key] = value
	return LabelsOf(m)
}

// Only returns the labels that have one of these keys.
func (l Labels) Only(keys iter.Seq[string]) Labels {
	some := map[string]string{}
	for k := range keys {
		if v, ok := l.Get(k); ok {
			some[k] = v
		}
	}
	return LabelsOf(some)
}

// Selects reports whether l, read as a selector, matches o: o has each label of l with the same
// value. The empty selector matches everything.
func (l Labels) Selects(o Labels) bool {
	for k, v := range l.all {
		if own, has := o.Get(k); !has || own != v {
			return false
		}
	}
	return true
}

// Compare orders Labels, in every process alike.
func (l Labels) Compare(o Labels) int {
	return cmp.Or(strings.Compare(l.text, o.text), strings.Compare(l.pod, o.pod))
}

// String returns the form for people: "app=reviews,version=v1".
func (l Labels) String() string {
	return strings.Join(slices.Collect(l.Pairs()), ",")
}
