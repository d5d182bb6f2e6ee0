package sidecar

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// holding is a table beside what it should hold: services and versions by name.
type holding struct {
	table    *table
	contents map[string][2]string
}

func (h holding) references() []string {
	var all []string
	for _, c := range h.contents {
		all = append(all, c[0])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestTablesHoldWhatTheyWereGiven(t *testing.T) {
	bodies := map[string][]byte{}
	body := func(name, service string) []byte {
		key := name + "/" + service
		if bodies[key] == nil {
			bodies[key] = encoded(t, &clusterv3.Cluster{
				Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
				EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service},
			})
		}
		return bodies[key]
	}
	rapid.Check(t, func(t *rapid.T) {
		ts := newTables(newInterner(nil))
		all := []holding{{ts.empty, map[string][2]string{}}}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			from := rapid.SampledFrom(all).Draw(t, "from")
			to := holding{contents: map[string][2]string{}}
			for name, c := range from.contents {
				to.contents[name] = c
			}
			var edits []edit
			var digest uint64
			// Few and many names, so that tables go over the number of buckets and back.
			n := rapid.SampledFrom([]int{1, 3, 60, 150}).Draw(t, "edits")
			first, remove := rapid.IntRange(0, 100).Draw(t, "first"), rapid.IntRange(0, 3).Draw(t, "remove")
			shared := rapid.Bool().Draw(t, "shared")
			for i := range n {
				name := fmt.Sprintf("c%d", first+i)
				if remove == 0 {
					edits = append(edits, edit{hash: nameHash(name), name: name})
					digest = mix(digest, nameHash(name)+1)
					delete(to.contents, name)
					continue
				}
				service := name
				if shared {
					service = fmt.Sprintf("c%d", (first+i)/2)
				}
				version := fmt.Sprint(remove)
				e, err := ts.intern(&received{typ: Cluster, name: []byte(name), version: []byte(version),
					body: body(name, service)})
				require.NoError(t, err)
				edits = append(edits, edit{e.hash, e.name, e})
				digest = mix(digest, e.key)
				to.contents[name] = [2]string{service, version}
			}
			to.table = ts.apply(from.table, edits, digest)
			require.Same(t, to.table, ts.apply(from.table, edits, digest))
			check(t, ts, from, to)
			all = append(all, to)
			if rapid.IntRange(0, 4).Draw(t, "sweep") == 0 {
				ts.sweep(func(use func(*table), _ func(*entry)) { use(to.table) })
				all = []holding{to}
			}
		}
	})
}

func check(t *rapid.T, ts *tables, from, to holding) {
	require.Equal(t, len(to.contents), to.table.size())
	for name, c := range to.contents {
		e := to.table.get(nameHash(name), name)
		require.NotNil(t, e, name)
		require.Equal(t, c, [2]string{e.refers[0], e.version})
	}
	require.Equal(t, to.references(), slices.Clone(to.table.references()))

	// Equal contents are the same table, however they came about.
	var edits []edit
	var at position
	for e := to.table.next(&at); e != nil; e = to.table.next(&at) {
		edits = append(edits, edit{e.hash, e.name, e})
	}
	slices.Reverse(edits)
	require.Same(t, to.table, ts.apply(ts.empty, edits, uint64(len(ts.transitions))+1<<40))

	step := ts.refDiff(from.table, to.table)
	require.Equal(t, without(to.references(), from.references()), step.added)
	require.Equal(t, without(from.references(), to.references()), step.removed)
	require.Equal(t, len(without(to.references(), namesIn(from))), to.table.pending(from.table))
}

func namesIn(h holding) (names []string) {
	for name := range h.contents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func without(a, b []string) (rest []string) {
	for _, name := range a {
		if _, found := slices.BinarySearch(b, name); !found {
			rest = append(rest, name)
		}
	}
	return rest
}

func TestTablesShareWhatTheyHaveInCommon(t *testing.T) {
	ts := newTables(newInterner(nil))
	var edits []edit
	for i := range 4000 {
		e := ts.absentEntry(Endpoint, fmt.Sprintf("outbound|80||service-%d.default.svc.cluster.local", i))
		edits = append(edits, edit{e.hash, e.name, e})
	}
	a := ts.apply(ts.empty, edits, 1)
	b := ts.apply(a, []edit{{hash: edits[7].hash, name: edits[7].name}}, 2)
	differ := 0
	for i := range a.parts {
		if a.parts[i] != b.parts[i] {
			differ++
		}
		require.Less(t, a.parts[i].n, 2*4000/buckets, "names are spread evenly")
	}
	require.Equal(t, 1, differ)
}

func TestUnusedTablesAreForgotten(t *testing.T) {
	ts := newTables(newInterner(nil))
	held := ts.empty
	most := 0
	for i := range 50_000 {
		e := ts.absentEntry(Endpoint, fmt.Sprintf("service-%d", i))
		held = ts.apply(held,
			[]edit{{e.hash, e.name, e},
				{hash: nameHash(fmt.Sprintf("service-%d", i-100)), name: fmt.Sprintf("service-%d", i-100)}}, e.key)
		if ts.due() {
			ts.sweep(func(use func(*table), _ func(*entry)) { use(held) })
		}
		most = max(most, len(ts.entries)+len(ts.tables)+len(ts.parts)+len(ts.transitions))
	}
	require.Equal(t, 100, held.n)
	require.Less(t, most, 2*sweepAt)
	require.NotNil(t, held.get(nameHash("service-49999"), "service-49999"))
}
