package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawLabels draws few of few labels, those that are kept apart among them.
func drawLabels(t *rapid.T) map[string]string {
	m := map[string]string{}
	for _, k := range []string{"app", "apps", PodIndexLabel, PodIndexLabel + "x", PodNameLabel} {
		if v := rapid.SampledFrom([]string{"none", "", "0", "1", "db", "db-0", "db-1", "db-"}).Draw(t, k); v != "none" {
			m[k] = v
		}
	}
	return m
}

func within(m, o map[string]string) bool {
	for k, v := range m {
		if own, has := o[k]; !has || own != v {
			return false
		}
	}
	return true
}

// However labels are held, they are what a map of them is.
func TestLabelsEqualTheirMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, o := drawLabels(t), drawLabels(t)
		a, b := LabelsOf(m), LabelsOf(o)
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			pairs = append(pairs, k+"="+m[k])
		}
		require.Equal(t, m, a.Map())
		require.Equal(t, pairs, slices.Collect(a.Pairs()))
		require.Equal(t, strings.Join(pairs, ","), a.String())
		require.Equal(t, len(m) == 0, a.IsEmpty())
		if len(m) > 0 {
			require.Equal(t, pairs[0], a.FirstPair())
		}
		require.Equal(t, maps.Equal(m, o), a == b)
		require.Equal(t, maps.Equal(m, o), Fingerprint(&a) == Fingerprint(&b))
		require.Equal(t, maps.Equal(m, o), Equal(&a, &b))
		require.Equal(t, maps.Equal(m, o), a.Compare(b) == 0)
		require.Equal(t, a.Compare(b), -b.Compare(a))
		require.Equal(t, within(m, o), a.Selects(b))
		some := maps.Clone(m)
		maps.DeleteFunc(some, func(k, _ string) bool { _, has := o[k]; return !has })
		require.Equal(t, LabelsOf(some), a.Only(maps.Keys(o)))
		more := maps.Clone(m)
		for k, v := range o {
			more[k] = v
			a = a.With(k, v)
		}
		require.Equal(t, LabelsOf(more), a)
		for _, k := range []string{"app", "ap", "none", PodNameLabel, PodIndexLabel} {
			v, has := a.Get(k)
			known, have := more[k]
			require.Equal(t, have, has)
			require.Equal(t, known, v)
		}
	})
}

// Pods of a StatefulSet share the text of their labels, and what is not in it is in the memory of
// the name.
func TestReplicasShareTheirLabels(t *testing.T) {
	of := func(n int) (Labels, string) {
		name := fmt.Sprintf("db-%d", n)
		return LabelsOf(map[string]string{"app": "db", PodNameLabel: name, PodIndexLabel: fmt.Sprint(n)}), name
	}
	a, name := of(0)
	b, _ := of(12)
	require.NotEqual(t, a, b)
	require.Same(t, unsafe.StringData(a.text), unsafe.StringData(b.text))
	require.Same(t, unsafe.StringData(name), unsafe.StringData(a.pod))
}

// What workloads share is the memory of what is equal, and nothing else.
func TestWorkloadsReuseEqualStrings(t *testing.T) {
	name := strings.Clone("db-1")
	of := func() *Workload {
		return &Workload{
			Meta:   Meta{Name: strings.Clone(name)},
			Labels: LabelsOf(map[string]string{PodNameLabel: strings.Clone(name)}),
			Node:   strings.Clone("n1"), ServiceAccount: strings.Clone("db"),
		}
	}
	a, b, want := of(), of(), of()
	b.ServiceAccount = "web"
	a.ReuseStrings(b)
	a.ReuseStrings(nil)
	require.Equal(t, want, a)
	require.Same(t, unsafe.StringData(b.Name), unsafe.StringData(a.Name))
	require.Same(t, unsafe.StringData(b.Name), unsafe.StringData(a.Labels.pod))
	require.Same(t, unsafe.StringData(b.Node), unsafe.StringData(a.Node))
}
