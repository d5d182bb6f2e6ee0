package serve

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// anyStream returns one of the connected proxies' streams, or nil.
func (f *fixture) anyStream() *stream {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	for st := range f.server.streams {
		return st
	}
	return nil
}

// occupy takes the only slot of the throttle, until the returned function is called.
func (f *fixture) occupy() (leave func()) {
	began, end := make(chan struct{}), make(chan struct{})
	conn := f.hub.Register(class+1, resource.NewState(0), resource.Overlay{})
	conn.Start(func() bool {
		close(began)
		<-end
		return true
	})
	<-began
	return func() {
		conn.Close()
		close(end)
	}
}

// calm waits until no push is under way.
func (f *fixture) calm() {
	f.t.Helper()
	calm := f.hub.Calm()
	if calm == nil {
		return
	}
	select {
	case <-calm:
	case <-time.After(time.Minute):
		f.t.Fatal("pushes go on, although there is nothing to push")
	}
}

// A push that found the session busy, and whose turn comes again when the stream has ended, is the
// last one.
func TestEndedStreamLeavesThePoolQuiet(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	f.publish(f.clusters(2, 3_000_000, "x", "y", "z"))
	d := f.names(slowNode(), "nothing")
	f.eventually("connected", func() bool { return f.anyStream() != nil })
	st := f.anyStream()
	d.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: resource.Cluster.URL(), ResourceNamesSubscribe: []string{"x", "y", "z"},
	})
	f.eventually("its request is stuck in a send", func() bool {
		f.server.sendWatch.mu.Lock()
		defer f.server.sendWatch.mu.Unlock()
		return f.server.sendWatch.first == st && f.value("lateen_xds_queued_bytes") > 0
	})
	f.publish(f.clusters(3, 3_000_000, "x", "y", "z"))
	f.eventually("the push is missed", func() bool { return st.driver.now().due == duePush })

	leave := f.occupy()
	d.cancel()
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 })
	leave()
	f.calm()
	require.Zero(t, f.value("lateen_push_slots_busy"))
}

// The metric shows workers that are busy and send nothing. A push that comes while the last
// acknowledgment is taken is counted, and so is the one that is made up for it.
func TestPushThatFindsNothingIsCounted(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
	f.publish(f.clusters(2, 1, "a", "b", "c")) // without a removal, which would follow by itself
	d.ack(d.recv())
	before := f.value("lateen_empty_pushes_total")
	f.anyStream().conn.Poke()
	f.eventually("counted", func() bool { return f.value("lateen_empty_pushes_total") > before })
}

// A session that wants a tick at a time that is past, and sends nothing, is asked again later.
func TestTickThatSendsNothingIsNotMadeAgainAtOnce(t *testing.T) {
	st := &stream{earliestTick: time.Unix(100, 0)}
	require.Equal(t, st.earliestTick, st.notBefore(time.Unix(99, 0)))
	require.Equal(t, time.Unix(101, 0), st.notBefore(time.Unix(101, 0)))
}
