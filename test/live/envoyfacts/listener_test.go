package envoyfacts

import (
	"io"
	"net/http"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestAckOfAListenerDoesNotProveItsUse_1_5 is why clusters are removed only after the ACKs of
// listeners and routes, and then the drain time.
func TestAckOfAListenerDoesNotProveItsUse_1_5(t *testing.T) {
	fact(t, "a listener is ACKed before it opens", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitAck(r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", never))))
		require.Contains(t, r.Config().WarmingListeners, "l")
		require.Zero(t, r.Get("l", "a.test", "/"))
		r.AwaitSubscribe(adscript.Routes, "rc")
		r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*"))))
		r.Until("it answers", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
	})
	fact(t, "while a new one warms, the old one takes new connections", func(t *testing.T, r *adscript.Run) {
		start(r)
		open(r, "l", adscript.RouteTable("old", adscript.AnsweringHost("old", "old", "*")))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.HTTPListener("l", "new", never))))
		r.AwaitSubscribe(adscript.Routes, "new")
		r.Settle()
		require.Equal(t, ok("old"), r.Get("l", "a.test", "/"))
		r.AwaitAck(r.Send(adscript.Push("1", adscript.RouteTable("new", adscript.AnsweringHost("new", "new", "*")))))
		r.Until("the new one answers", func() bool { return r.Get("l", "a.test", "/") == ok("new") })
	})
	fact(t, "one that changes and keeps its route table opens at once, and asks for nothing",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			keepsItsRoutes(t, r)
		})
	factWith(t, "a replaced one drains on with the old configuration", adscript.Options{Drain: time.Hour},
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("old", "", never), backend(t, "old"))
			open(r, "l", adscript.RouteTable("old", adscript.VirtualHost("old", "old", "*")))
			request, closeAll := keepAlive(t, r)
			defer closeAll()
			require.Equal(t, ok("old"), request())

			r.Send(adscript.Push("2", adscript.HTTPListener("l", "new", never)))
			r.AwaitSubscribe(adscript.Routes, "new")
			r.AwaitAck(r.Send(adscript.Push("1",
				adscript.RouteTable("new", adscript.AnsweringHost("new", "new", "*")))))
			r.Until("the new one answers", func() bool { return r.Get("l", "a.test", "/") == ok("new") })
			require.Equal(t, ok("old"), request())
		})
	factWith(t, "a cluster that goes meanwhile fails its requests", adscript.Options{Drain: time.Hour},
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("old", "", never), backend(t, "old"))
			open(r, "l", adscript.RouteTable("old", adscript.VirtualHost("old", "old", "*")))
			request, closeAll := keepAlive(t, r)
			defer closeAll()
			require.Equal(t, ok("old"), request())

			r.Send(adscript.Push("2", adscript.HTTPListener("l", "new", never)))
			r.AwaitSubscribe(adscript.Routes, "new")
			r.AwaitAck(r.Send(adscript.Push("1",
				adscript.RouteTable("new", adscript.AnsweringHost("new", "new", "*")))))
			r.Until("the new one answers", func() bool { return r.Get("l", "a.test", "/") == ok("new") })
			r.AwaitAck(r.Send(adscript.Removal(adscript.Clusters, "old")))
			require.Equal(t, 503, request().Status)
		})
	fact(t, "a refused response for routes opens all listeners that wait for any", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitAck(r.Send(adscript.Push("1", adscript.HTTPListener("l1", "bad", never),
			adscript.HTTPListener("l2", "absent", never))))
		r.AwaitSubscribe(adscript.Routes, "absent")
		r.AwaitNack(r.Send(adscript.Push("1", twice("bad"))))
		r.Until("both answer", func() bool {
			return r.Get("l1", "a.test", "/").Status == 404 && r.Get("l2", "a.test", "/").Status == 404
		})
	})
	fact(t, "a change of its filter chains alone is taken in place, and config_dump shows the old version",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))
			l := adscript.HTTPListener("l", "rc", never)
			l.FilterChains[0].Name = "changed"
			r.AwaitAck(r.Send(adscript.Push("2", l)))
			now := r.Config().Listeners["l"]
			require.Equal(t, "changed", now.Body.(*listenerv3.Listener).GetFilterChains()[0].GetName())
			require.Equal(t, "1", now.Version)
			require.Empty(t, r.Config().DrainingListeners)
			r.Reconnect()
			require.Equal(t, map[string]string{"l": "2"}, r.AwaitOpen(adscript.Listeners).InitialVersions)
		})
	fact(t, "a route to a cluster that is not there yet answers 503", func(t *testing.T, r *adscript.Run) {
		start(r)
		open(r, "l", adscript.RouteTable("rc", adscript.VirtualHost("c", "c", "*")))
		require.Equal(t, 503, r.Get("l", "c.test", "/").Status)
		cds := r.Send(adscript.Push("1", adscript.EDSCluster("c", "", never)))
		r.AwaitSubscribe(adscript.Endpoints, "c")
		r.Settle()
		require.Equal(t, 503, r.Get("l", "c.test", "/").Status, "while it warms")
		r.Send(adscript.Push("1", adscript.Assignment("c", backend(t, "c"))))
		r.AwaitAck(cds)
		r.Until("it answers", func() bool { return r.Get("l", "c.test", "/") == ok("c") })
	})
}

func keepsItsRoutes(t *testing.T, r *adscript.Run) {
	t.Helper()
	open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))
	mark := r.Mark()
	l := adscript.HTTPListener("l", "rc", never)
	l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1 << 15)
	r.AwaitAck(r.Send(adscript.Push("2", l)))
	r.Settle()
	require.Empty(t, requests(r, mark, adscript.Routes))
	require.Equal(t, "2", r.Config().Listeners["l"].Version)
	require.Empty(t, r.Config().WarmingListeners)
	require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
}

// keepAlive sends requests through listener l, all on one connection of HTTP/1.1, which it opens
// now.
func keepAlive(t *testing.T, r *adscript.Run) (request func() adscript.Answer, closeAll func()) {
	t.Helper()
	return keepAliveBy(t, r, &http.Transport{MaxConnsPerHost: 1})
}

// keepAliveHTTP2 is keepAlive for HTTP/2 without TLS.
func keepAliveHTTP2(t *testing.T, r *adscript.Run) (request func() adscript.Answer, closeAll func()) {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1, Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return keepAliveBy(t, r, transport)
}

func keepAliveBy(
	t *testing.T, r *adscript.Run, transport *http.Transport,
) (request func() adscript.Answer, closeAll func()) {
	t.Helper()
	url := "http://" + r.Address("l").String()
	return func() adscript.Answer {
		t.Helper()
		resp, err := (&http.Client{Transport: transport}).Get(url)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return adscript.Answer{Status: resp.StatusCode, Body: string(body)}
	}, transport.CloseIdleConnections
}
