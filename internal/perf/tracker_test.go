package perf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

const (
	assignment = typeurl.Endpoint
	here       = "outbound|80||here"
)

// watched is a tracker with two proxies in sync that hold two pods, of which the first is then
// removed.
func watched() (t *tracker, began baseline) {
	t = newTracker(here)
	for _, pod := range []string{"a", "b"} {
		t.join(pod, "ns")
		t.markSynced(pod)
	}
	began = t.startPhase(endpoints)
	t.beginRemoval("ns", "10.0.0.1")
	return t, began
}

func (t *tracker) removalsOf(began baseline) int {
	p := Phase{}
	t.report(began, &p)
	return p.Removal.Count
}

func TestARemovalIsSeenInAListOfEndpoints(t *testing.T) {
	tr, began := watched()
	for body, seen := range map[string]bool{
		"10.0.0.1 10.0.0.2": false, "10.0.0.11 10.10.0.1": true, "10.0.0.2": true, "": false,
		"leds without endpoints": false,
	} {
		require.Equal(t, seen, tr.classify(assignment, here, []byte(body)) != 0, body)
	}
	require.Zero(t, tr.classify(assignment, "outbound|80||elsewhere", []byte("10.0.0.2")), "it never had that pod")
	without := tr.classify(assignment, here, []byte("10.0.0.2"))
	tr.arrived("a", without, false, time.Now())
	require.Zero(t, tr.countComplete(began))
	tr.arrived("a", without, false, time.Now())
	require.Equal(t, 1, tr.removalsOf(began), "once for each proxy")
	tr.arrived("b", without, false, time.Now())
	require.Equal(t, 1, tr.countComplete(began))
	require.Equal(t, 2, tr.removalsOf(began))
}

func TestARemovalIsSeenWhereEndpointsComeOneByOne(t *testing.T) {
	tr, began := watched()
	first, second := tr.classify(member, "x", []byte("10.0.0.1")), tr.classify(member, "y", []byte("10.0.0.2"))
	tr.arrived("a", first, false, time.Now())
	tr.arrived("a", second, true, time.Now())
	require.Zero(t, tr.removalsOf(began), "neither what comes nor the end of another endpoint is this removal")
	tr.arrived("a", first, true, time.Now())
	tr.leave("b")
	require.Equal(t, 1, tr.countComplete(began), "nobody waits for who has gone")
	require.Equal(t, 1, tr.removalsOf(began))
}

// TestARemovalIsSeenWhereAListBecomesACollection: the collection's first answer is without the pod.
func TestARemovalIsSeenWhereAListBecomesACollection(t *testing.T) {
	tr, began := watched()
	first, second := tr.classify(member, "x", []byte("10.0.0.1")), tr.classify(member, "y", []byte("10.0.0.2"))
	require.Zero(t, tr.collected("outbound|80||elsewhere", []uint64{second}))
	require.Zero(t, tr.collected(here, []uint64{first, second}))
	tr.arrived("a", tr.collected(here, []uint64{second}), false, time.Now())
	tr.arrived("b", tr.collected(here, nil), false, time.Now())
	require.Equal(t, 1, tr.countComplete(began))
	require.Equal(t, 2, tr.removalsOf(began))
}

func TestWhatHasNotArrivedIsSaid(t *testing.T) {
	tr, began := watched()
	tr.begin("ns")
	tr.arrived("b", tr.classify(assignment, here, []byte("10.0.0.2")), false, time.Now())
	require.Equal(t, "removal 1 of 1 has come to 1 sidecars and not to 1, as a", tr.describeMissing(began))
	tr.leave("a")
	require.Equal(t, "change 1 of 1 has come to 0 sidecars and not to 1, as b", tr.describeMissing(began))
	tr.leave("b")
	require.Equal(t, "all have arrived", tr.describeMissing(began))
}

// TestWhoWasNotInSyncHadNothingToRemove: its first endpoints may be without the pod, and then it is
// never told.
func TestWhoWasNotInSyncHadNothingToRemove(t *testing.T) {
	tr := newTracker(here)
	tr.join("a", "ns")
	began := tr.startPhase(endpoints)
	tr.beginRemoval("ns", "10.0.0.1")
	require.Equal(t, 1, tr.countComplete(began))
	tr.markSynced("a")
	tr.beginRemoval("other", "10.0.0.2")
	tr.beginRemoval(allNamespaces, "10.0.0.3")
	require.Equal(t, 2, tr.countComplete(began))
	tr.arrived("a", tr.classify(assignment, here, []byte("10.0.0.4")), false, time.Now())
	require.Equal(t, 3, tr.countComplete(began))
	require.Equal(t, 1, tr.removalsOf(began))
}

func TestAMarkKeepsItsParts(t *testing.T) {
	for l := range numGroups {
		m := newMark(l, load.MaxMarker, 1<<32-1)
		require.Equal(t, l, m.group())
		require.Equal(t, load.MaxMarker, m.change())
		require.EqualValues(t, 1<<32-1, m.rest())
		require.False(t, m.isMember())
		require.True(t, (m | memberBit).isMember())
		require.Equal(t, l, (m | memberBit).group())
	}
}
