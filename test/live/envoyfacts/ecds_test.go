package envoyfacts

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestFiltersAreResourcesOfTheirOwn_1_16 is why policies about requests are delivered as one
// resource, a list of filters with a default that refuses, and what P27 answers to a refusal.
func TestFiltersAreResourcesOfTheirOwn_1_16(t *testing.T) {
	fact(t, "a listener asks for its filter by name, and waits for it, whatever else comes", listenerWaitsForItsFilter)
	fact(t, "a fetch that times out ends the wait with the default", func(t *testing.T, r *adscript.Run) {
		start(r)
		waitForFilter(r, soon)
		r.Until("it refuses", func() bool { return r.Get("l", "a.test", "/") == refused })
		r.AwaitAck(r.Send(adscript.Push("1", adscript.FilterList("f", adscript.DenyPath("/no")))))
		r.Until("it is open", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
	})
	fact(t, "a refused response ends the wait with the default", func(t *testing.T, r *adscript.Run) {
		start(r)
		waitForFilter(r, never)
		r.AwaitNack(r.Send(adscript.Push("1", adscript.FilterList("f", adscript.BadRegex()))))
		r.Until("it refuses", func() bool { return r.Get("l", "a.test", "/") == refused })
	})
	fact(t, "behind its listener in one burst it is taken, in front dropped", func(t *testing.T, r *adscript.Run) {
		start(r)
		table := adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*"))
		r.AwaitAck(r.Send(adscript.Push("1", filtered("l", never)),
			adscript.Push("1", adscript.FilterList("f", adscript.DenyPath("/no"))), adscript.Push("1", table)))
		r.Until("it is open", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
		other := adscript.WithFilter(adscript.HTTPListener("m", "rc", never), "g", never, true)
		r.Send(adscript.Push("2", adscript.FilterList("g", adscript.DenyPath("/no"))), adscript.Push("1", other))
		r.AwaitSubscribe(adscript.Filters, "g")
		r.Settle()
		require.Contains(t, r.Config().WarmingListeners, "m")
	})
	fact(t, "an edit is for the next request on connections that are open, and drains nothing", editDrainsNothing)
	fact(t, "an edit is for the next stream on a connection of HTTP/2, and drains nothing", editDrainsNoHTTP2)
	fact(t, "a list of filters changes at once", listChangesAtOnce)
	fact(t, "filters of a list behind one that waits for an answer have their turn", filtersBehindAnAnswer)
	fact(t, "a request that waits for an answer keeps the list that it met", requestThatWaits)
	fact(t, "a list decides where no route leads; one of none accepts", func(t *testing.T, r *adscript.Run) {
		start(r)
		openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "a.test")))))
		require.Equal(t, http.StatusNotFound, r.Get("l", "b.test", "/").Status)
		require.Equal(t, refused, r.Get("l", "b.test", "/no"))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f"))))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/no"))
	})
	fact(t, "an edit drains nothing in TLS and behind original_dst, either", editOfASecureListener)
	fact(t, "a change of other filter chains leaves its connections alone", otherChainsChange)
	fact(t, "a second listener of the same filter opens without a request", func(t *testing.T, r *adscript.Run) {
		start(r)
		openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
		mark := r.Mark()
		r.AwaitAck(r.Send(adscript.Push("1", filtered("m", never))))
		r.Until("it is open", func() bool { return r.Get("m", "a.test", "/") == ok("a") })
		require.Equal(t, refused, r.Get("m", "a.test", "/no"))
		require.Empty(t, requests(r, mark, adscript.Filters))
	})
	fact(t, "a removal puts the default in force, until there is another", func(t *testing.T, r *adscript.Run) {
		start(r)
		openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
		request, closeAll := keepAlive(t, r)
		defer closeAll()
		require.Equal(t, ok("a"), request())
		r.AwaitAck(r.Send(adscript.Removal(adscript.Filters, "f")))
		require.Equal(t, refused, request())
		r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.DenyPath("/no")))))
		require.Equal(t, ok("a"), request())
	})
	fact(t, "what was refused changes nothing, and yet counts as the newest", refusedFilterCountsAsNewest)
	fact(t, "the last good one again makes up for that", goodFilterAgain)
	fact(t, "a removal makes up for that, too, where none was good", firstFilterRefused)
	fact(t, "versions are reported; it is given up when its listener has drained", func(t *testing.T, r *adscript.Run) {
		start(r)
		openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
		r.Reconnect()
		require.Equal(t, map[string]string{"f": "1"}, r.AwaitSubscribe(adscript.Filters, "f").InitialVersions)
		r.AwaitAck(r.Send(adscript.Push("2", adscript.HTTPListener("l", "rc", never))))
		r.AwaitUnsubscribe(adscript.Filters, "f")
	})
	factWith(t, "until then a listener that drains has the newest one", adscript.Options{Drain: time.Hour},
		drainsWithTheNewest)
}

// refused is what the filters of this test answer.
var refused = adscript.Answer{Status: http.StatusForbidden, Body: "RBAC: access denied"}

// filtered is a listener with filter f in front, whose default refuses everything.
func filtered(name string, fetch time.Duration) *listenerv3.Listener {
	return adscript.WithFilter(adscript.HTTPListener(name, "rc", never), "f", fetch, true)
}

// waitForFilter adds listener l, which waits for nothing but filter f.
func waitForFilter(r *adscript.Run, fetch time.Duration) {
	r.Send(adscript.Push("1", filtered("l", fetch)))
	r.AwaitSubscribe(adscript.Routes, "rc")
	r.AwaitSubscribe(adscript.Filters, "f")
	r.AwaitAck(r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))))
}

// openFiltered adds listener l with filter f.
func openFiltered(r *adscript.Run, filter *corev3.TypedExtensionConfig) {
	waitForFilter(r, never)
	r.AwaitAck(r.Send(adscript.Push("1", filter)))
	r.Until("it is open", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
}

func listenerWaitsForItsFilter(t *testing.T, r *adscript.Run) {
	start(r)
	waitForFilter(r, never)
	r.AwaitAck(r.Send(adscript.Removal(adscript.Filters)))
	r.AwaitAck(r.Send(adscript.Removal(adscript.Filters, "f")))
	r.AwaitAck(r.Send(adscript.Push("1", adscript.FilterList("other", adscript.DenyPath("/no")))))
	r.Settle()
	require.Contains(t, r.Config().WarmingListeners, "l")
	r.AwaitAck(r.Send(adscript.Push("1", adscript.FilterList("f", adscript.DenyPath("/no")))))
	r.Until("it is open", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
	require.Equal(t, refused, r.Get("l", "a.test", "/no"))
}

func editDrainsNothing(t *testing.T, r *adscript.Run) {
	editsOnOneConnection(t, r, keepAlive)
	require.Equal(t, 1, r.Stat("http.l.downstream_cx_active"))
}

func editDrainsNoHTTP2(t *testing.T, r *adscript.Run) {
	editsOnOneConnection(t, r, keepAliveHTTP2)
	require.Equal(t, 1, r.Stat("http.l.downstream_cx_http2_total"), "all came on one connection")
	require.Zero(t, r.Stat("http.l.downstream_cx_drain_close"))
}

// editsOnOneConnection edits a filter between requests on a connection, which stays open until the
// test ends.
func editsOnOneConnection(
	t *testing.T, r *adscript.Run, open func(*testing.T, *adscript.Run) (func() adscript.Answer, func()),
) {
	t.Helper()
	start(r)
	openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
	request, closeAll := open(t, r)
	t.Cleanup(closeAll)
	require.Equal(t, ok("a"), request())
	requireEditsInForce(t, r, request)
}

// requireEditsInForce has a filter refuse all requests, and then accept them again. Each edit is in
// force for the next request, and the listener stays as it is.
func requireEditsInForce(t *testing.T, r *adscript.Run, request func() adscript.Answer) {
	t.Helper()
	mark := r.Mark()
	r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.DenyAll()))))
	require.Equal(t, refused, request())
	r.AwaitAck(r.Send(adscript.Push("3", adscript.FilterList("f", adscript.DenyPath("/no")))))
	require.Equal(t, ok("a"), request())
	requireQuiet(t, r, mark)
	require.Equal(t, "1", r.Config().Listeners["l"].Version)
	require.Empty(t, r.Config().DrainingListeners)
}

// listChangesAtOnce edits a list such that a part of the old one and a part of the new one would
// let through what both refuse.
func listChangesAtOnce(t *testing.T, r *adscript.Run) {
	start(r)
	first := adscript.FilterList("f", adscript.DenyPath("/no"), adscript.DenyPath("/other"))
	second := adscript.FilterList("f", adscript.DenyPath("/other"), adscript.DenyPath("/no"))
	openFiltered(r, first)
	stop, at := make(chan struct{}), r.Address("l")
	var callers sync.WaitGroup
	var calls, open atomic.Int32
	for range 4 {
		client := http.Client{Transport: &http.Transport{}}
		callers.Go(func() {
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := client.Get("http://" + at.String() + "/no")
				if err != nil || resp.StatusCode != http.StatusForbidden {
					open.Add(1)
				}
				if err == nil {
					_ = resp.Body.Close()
				}
				calls.Add(1)
			}
		})
	}
	for i := range 100 {
		before := calls.Load()
		r.AwaitAck(r.Send(adscript.Push("2", []*corev3.TypedExtensionConfig{second, first}[i%2])))
		r.Until("calls went on", func() bool { return calls.Load() > before })
	}
	close(stop)
	callers.Wait()
	require.Zero(t, open.Load(), "of %d calls", calls.Load())
}

func otherChainsChange(t *testing.T, r *adscript.Run) {
	start(r)
	l := filtered("l", never)
	second := adscript.HTTPListener("other", "rc", never).GetFilterChains()[0]
	second.FilterChainMatch = &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(1)}
	l.FilterChains = append(l.GetFilterChains(), second)
	r.Send(adscript.Push("1", l))
	r.AwaitSubscribe(adscript.Filters, "f")
	r.AwaitSubscribe(adscript.Routes, "rc")
	r.AwaitAck(r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*"))),
		adscript.Push("1", adscript.FilterList("f", adscript.DenyPath("/no")))))
	r.Until("it is open", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
	request, closeAll := keepAlive(t, r)
	defer closeAll()
	require.Equal(t, ok("a"), request())
	second.FilterChainMatch.DestinationPort = wrapperspb.UInt32(2)
	r.AwaitAck(r.Send(adscript.Push("2", l)))
	r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.DenyAll()))))
	require.Equal(t, refused, request())
	require.Equal(t, 1, r.Stat("http.l.downstream_cx_active"))
}

// refusedFilterCountsAsNewest is the trap: the same again is ACKed and not in force, and listeners
// that name it are refused.
func refusedFilterCountsAsNewest(t *testing.T, r *adscript.Run) {
	start(r)
	openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
	bad := adscript.FilterList("f", adscript.BadRegex())
	r.AwaitNack(r.Send(adscript.Push("2", bad)))
	require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	require.Equal(t, refused, r.Get("l", "a.test", "/no"))
	r.AwaitAck(r.Send(adscript.Push("3", bad)))
	require.Equal(t, refused, r.Get("l", "a.test", "/no"))
	r.AwaitNack(r.Send(adscript.Push("1", filtered("m", never))))
	r.Reconnect()
	require.Equal(t, map[string]string{"f": "3"}, r.AwaitSubscribe(adscript.Filters, "f").InitialVersions)
}

func goodFilterAgain(t *testing.T, r *adscript.Run) {
	start(r)
	good := adscript.FilterList("f", adscript.DenyPath("/no"))
	openFiltered(r, good)
	r.AwaitNack(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.BadRegex()))))
	r.AwaitAck(r.Send(adscript.Push("1", good)))
	r.AwaitAck(r.Send(adscript.Push("1", filtered("m", never))))
	r.Until("it is open", func() bool { return r.Get("m", "a.test", "/") == ok("a") })
	require.Equal(t, refused, r.Get("m", "a.test", "/no"))
	r.AwaitNack(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.BadRegex()))))
}

// firstFilterRefused is what a mistaken filter does to listeners that come later: they are refused
// although the default is in force, until the filter is removed.
func firstFilterRefused(t *testing.T, r *adscript.Run) {
	start(r)
	waitForFilter(r, never)
	r.AwaitNack(r.Send(adscript.Push("1", adscript.FilterList("f", adscript.BadRegex()))))
	r.Until("the default is in force", func() bool { return r.Get("l", "a.test", "/") == refused })
	r.AwaitNack(r.Send(adscript.Push("1", filtered("m", never))))
	r.AwaitAck(r.Send(adscript.Removal(adscript.Filters, "f")))
	require.Equal(t, refused, r.Get("l", "a.test", "/"))
	r.AwaitAck(r.Send(adscript.Push("1", filtered("m", never))))
	r.Until("the default is in force", func() bool { return r.Get("m", "a.test", "/") == refused })
	r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.DenyPath("/no")))))
	require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	require.Equal(t, ok("a"), r.Get("m", "a.test", "/"))
}

func drainsWithTheNewest(t *testing.T, r *adscript.Run) {
	start(r)
	openFiltered(r, adscript.FilterList("f", adscript.DenyPath("/no")))
	request, closeAll := keepAlive(t, r)
	defer closeAll()
	require.Equal(t, ok("a"), request())
	changed := filtered("l", never)
	changed.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1 << 15)
	r.AwaitAck(r.Send(adscript.Push("2", changed)))
	r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.DenyAll()))))
	require.Equal(t, refused, request())
}
