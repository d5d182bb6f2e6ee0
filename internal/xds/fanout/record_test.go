package fanout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

func TestRecordIsCompleteWithTheLastAck(t *testing.T) {
	f := newFixture(1)
	a, b, c, other := f.connect(1), f.connect(1), f.connect(2), f.connect(3)
	f.publish(7, 1, 2)
	f.clock.advance(time.Second)
	a.Sent(7, fanout.Load{Bytes: 100, Envoy: 4 * time.Millisecond})
	a.Acknowledged(7)
	b.Sent(7, fanout.Load{Bytes: 100, Envoy: 3 * time.Millisecond})
	b.Sent(7, fanout.Load{Bytes: 11, Envoy: 2 * time.Millisecond})
	b.Acknowledged(7)
	b.Acknowledged(7)
	other.Acknowledged(7)
	f.noRecord(t)
	c.Acknowledged(6)
	f.noRecord(t)
	f.clock.advance(time.Second)
	c.Acknowledged(7)

	require.Equal(t, fanout.Record{
		Generation: 7, Cause: "test", Observed: epoch, Published: epoch,
		Answered: epoch.Add(2 * time.Second), Finished: epoch.Add(2 * time.Second),
		Half: epoch.Add(time.Second), Most: epoch.Add(2 * time.Second),
		Proxies: 3, Bytes: 211, Envoy: 5 * time.Millisecond,
	}, f.record(t))
	require.Equal(t, 5*time.Millisecond, f.envoy)
	require.InDelta(t, 2, sum(t, f.metrics, "lateen_event_to_last_ack_seconds"), 1e-9)
}

// What is held back on purpose is sent and answered later, and does not count as time that the
// change took.
func TestLastAckDoesNotCountWhatIsHeldBack(t *testing.T) {
	f := newFixture(1)
	a, b := f.connect(1), f.connect(1)
	f.publish(7, 1)
	f.clock.advance(time.Second)
	a.Answered(7)
	b.Answered(6)
	f.clock.advance(time.Second)
	b.Acknowledged(7) // nothing of it was held back
	f.noRecord(t)
	f.clock.advance(10 * time.Second)
	a.Answered(7)
	a.Acknowledged(7)

	r := f.record(t)
	require.Equal(t, epoch.Add(12*time.Second), r.Finished)
	require.Equal(t, 2*time.Second, r.Elapsed())
	require.InDelta(t, 2, sum(t, f.metrics, "lateen_event_to_last_ack_seconds"), 1e-9)
}

// A record that is answered waits for no later one.
func TestAnsweredRecordDoesNotWaitForALaterOne(t *testing.T) {
	f := newFixture(1)
	a := f.connect(1)
	f.publish(7, 1)
	a.Answered(7)
	f.clock.advance(time.Second)
	f.publish(8, 1)
	a.Answered(7)
	f.clock.advance(time.Second)
	a.Acknowledged(8)

	require.Zero(t, f.record(t).Elapsed())
	require.Equal(t, time.Second, f.record(t).Elapsed())
}

func TestGenerationIsThroughDespiteStragglers(t *testing.T) {
	f := newFixture(1)
	conns := make([]*fanout.Conn, 130)
	for i := range conns {
		conns[i] = f.connect(1)
	}
	f.publish(1, 1)
	for _, c := range conns[:113] {
		c.Acknowledged(1)
	}
	require.Empty(t, f.through)
	require.Len(t, f.progress, 56, "for each two of 130")
	conns[113].Close()
	require.Equal(t, []uint64{1}, f.through, "it does not wait for 16 of 130")
	conns[114].Acknowledged(1)
	f.publish(2, 2)
	require.Equal(t, []uint64{1, 2}, f.through, "each once, and at once if it concerns nobody")
}

// Of few connections each counts.
func TestProgressIsReportedInSteps(t *testing.T) {
	f := newFixture(1)
	a, b, c := f.connect(1), f.connect(1), f.connect(1)
	f.publish(1, 1)
	f.publish(2, 2)
	a.Acknowledged(1)
	f.publish(3, 1)
	b.Acknowledged(3)
	require.Equal(t, []uint64{2, 1, 1, 3}, f.progress, "an answer to a later one is one to all before it")
	c.Acknowledged(1)
	require.Equal(t, []uint64{2, 1, 1, 3, 1}, f.progress)
	require.Equal(t, []uint64{2, 1}, f.through)
}

func TestDeparturesDoNotHoldARecord(t *testing.T) {
	f := newFixture(1)
	a, b := f.connect(1), f.connect(1)
	f.publish(1, 1)
	b.Close()
	f.noRecord(t)
	a.Acknowledged(1)
	r := f.record(t)
	require.Equal(t, []int{2, 0, 1, 0}, []int{r.Proxies, r.Refused, r.Left, r.Waiting})
}

func TestRefusalIsInTheRecord(t *testing.T) {
	f := newFixture(1)
	a, b := f.connect(1), f.connect(1)
	f.publish(1, 1)
	b.Acknowledged(1)
	a.Refused(1)
	f.publish(2, 1)
	f.noRecord(t)
	a.Acknowledged(2)
	b.Acknowledged(2)
	for _, refused := range []int{1, 0} {
		r := f.record(t)
		require.Equal(t, []int{2, refused, 0, 0}, []int{r.Proxies, r.Refused, r.Left, r.Waiting})
	}
	require.InDelta(t, 1, observations(t, f.metrics, "lateen_event_to_last_ack_seconds"), 0, "a refusal is not an ACK")
}

func TestGenerationThatTouchesNobodyHasNoRecord(t *testing.T) {
	f := newFixture(1)
	f.connect(1)
	f.publish(1, 2)
	f.noRecord(t)
}

func TestOldGenerationIsGivenUpWhenTooManyAreOpen(t *testing.T) {
	f := newFixture(1)
	c := f.connect(1)
	for n := range uint64(130) {
		f.publish(n+1, 1)
	}
	for want := range uint64(2) {
		r := f.record(t)
		require.Equal(t, want+1, r.Generation)
		require.Equal(t, 1, r.Waiting)
	}
	f.noRecord(t)
	c.Acknowledged(130)
	for range 128 {
		require.Zero(t, f.record(t).Waiting)
	}
	f.noRecord(t)
	require.InDelta(t, 2, sum(t, f.metrics, "lateen_drops_total"), 0)
}

func TestUnreadRecordsAreDroppedOldestFirst(t *testing.T) {
	f := newFixture(1)
	c := f.connect(1)
	for n := range uint64(260) {
		f.publish(n+1, 1)
		c.Acknowledged(n + 1)
	}
	require.EqualValues(t, 5, f.record(t).Generation)
	require.InDelta(t, 4, sum(t, f.metrics, "lateen_drops_total"), 0)
}

func observations(t *testing.T, m *observe.Metrics, name string) float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return float64(f.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
	return 0
}

// sum is the sum over a metric's series of their values, for histograms of what was observed.
func sum(t *testing.T, m *observe.Metrics, name string) float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	require.NoError(t, err)
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			total += s.GetCounter().GetValue() + s.GetGauge().GetValue() + s.GetHistogram().GetSampleSum()
		}
	}
	return total
}

func TestProxiesThatStayBehindAreStale(t *testing.T) {
	f := newFixture(1)
	slow, quick := f.connect(1), f.connect(1)
	stale := func() float64 { return sum(t, f.metrics, "lateen_stale_proxies") }
	f.publish(1, 1)
	quick.Acknowledged(1)
	f.clock.advance(fanout.StaleAfter)
	require.Zero(t, stale())
	for n := range uint64(200) { // more than there are records
		f.publish(n+2, 1)
		quick.Acknowledged(n + 2)
	}
	f.clock.advance(time.Second)
	require.InDelta(t, 1, stale(), 0)
	slow.Acknowledged(150)
	require.Zero(t, stale(), "what it has left is younger")
	f.clock.advance(fanout.StaleAfter)
	require.InDelta(t, 1, stale(), 0)
	slow.Close()
	require.Zero(t, stale())
}
