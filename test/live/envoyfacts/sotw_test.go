package envoyfacts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestStateOfTheWorldDiffers_1_12 is state of the world where it differs: a request states all
// names, and a response for clusters or listeners all there are (P11, P16).
func TestStateOfTheWorldDiffers_1_12(t *testing.T) {
	sotw := func(name string, check func(*testing.T, *adscript.Run)) {
		factWith(t, name, adscript.Options{StateOfTheWorld: true}, func(t *testing.T, r *adscript.Run) {
			start(r)
			check(t, r)
		})
	}
	sotw("a cluster that changes asks for its endpoints again, with what looks like an ACK",
		func(t *testing.T, r *adscript.Run) {
			c := adscript.EDSCluster("c", "", never)
			give(r, c, hosts(2)...)
			ack := r.Await("the ACK of the first", func(req adscript.Request) bool {
				return req.Type == adscript.Endpoints && req.Nonce != ""
			})
			mark := r.Mark()
			cds := r.Send(adscript.Push("2", changed(c)))
			r.Settle()
			again := requests(r, mark, adscript.Endpoints)
			require.Len(t, again, 1)
			require.Equal(t, []string{"c"}, again[0].Names)
			require.Equal(t, "1", again[0].Version)
			require.Equal(t, ack.Nonce, again[0].Nonce)
			require.False(t, r.Answered(cds))
			r.Send(adscript.Push("1", adscript.Assignment("c", hosts(2)...)))
			r.AwaitAck(cds)
			require.Equal(t, hosts(2), r.Hosts("c"))
		})
	sotw("a listener that changes and keeps its route table does not", func(t *testing.T, r *adscript.Run) {
		keepsItsRoutes(t, r)
	})
	sotw("clusters that a response lacks are gone, endpoints are not", func(t *testing.T, r *adscript.Run) {
		a, b := adscript.EDSCluster("a", "", never), adscript.EDSCluster("b", "", never)
		cds := r.Send(adscript.Push("1", a, b))
		r.AwaitSubscribe(adscript.Endpoints, "b")
		r.Send(adscript.Push("1", adscript.Assignment("a", hosts(1)...), adscript.Assignment("b", hosts(2)...)))
		r.AwaitAck(cds)
		require.NotContains(t, r.ActiveClusters(), "anchor")
		r.AwaitAck(r.Send(adscript.Push("2", adscript.Assignment("a", hosts(3)...))))
		require.Equal(t, hosts(3), r.Hosts("a"))
		require.Equal(t, hosts(2), r.Hosts("b"))
		r.AwaitAck(r.Send(adscript.Push("2", a)))
		require.NotContains(t, r.ActiveClusters(), "b")
		require.Equal(t, hosts(3), r.Hosts("a"), "sent again as it was, it did not warm")
	})
	sotw("listeners that a response lacks are gone, routes are not", func(t *testing.T, r *adscript.Run) {
		open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.RouteTable("other"))))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
		r.AwaitAck(r.Send(adscript.Response{Type: adscript.Listeners, Version: "2"}))
		require.Empty(t, r.Config().Listeners)
	})
	sotw("answers for clusters that were withheld become one, and a refusal among them goes along",
		func(t *testing.T, r *adscript.Run) {
			give(r, adscript.EDSCluster("first", "", never), hosts(1)...)
			mark := r.Mark()
			c := adscript.EDSCluster("c", "", never)
			warming := r.Send(adscript.Push("2", adscript.EDSCluster("first", "", never), c))
			refused := r.Send(adscript.Push("3", adscript.EDSCluster("first", "", never), c, unknownSocket("bad")))
			last := r.Send(adscript.Push("4", adscript.EDSCluster("first", "", never), c,
				adscript.StaticCluster("good")))
			r.Settle()
			require.Empty(t, requests(r, mark, adscript.Clusters))
			r.Send(adscript.Push("1", adscript.Assignment("c", hosts(1)...)))
			answer := r.AwaitAnswer(last)
			require.NotNil(t, answer.Error)
			require.Equal(t, "4", answer.Version)
			require.False(t, r.Answered(warming))
			require.False(t, r.Answered(refused))
		})
	sotw("endpoints that nobody wants are answered with the version of before", func(t *testing.T, r *adscript.Run) {
		give(r, adscript.EDSCluster("c", "", never), hosts(1)...)
		r.AwaitAck(r.Send(adscript.Push("2", adscript.StaticCluster("anchor"))))
		r.AwaitUnsubscribe(adscript.Endpoints, "c")
		answer := r.AwaitAnswer(r.Send(adscript.Push("2", adscript.Assignment("c", hosts(2)...))))
		require.Nil(t, answer.Error)
		require.Equal(t, "1", answer.Version)
	})
	sotw("on a new stream it states versions, and no clusters while one warms", func(t *testing.T, r *adscript.Run) {
		c := adscript.EDSCluster("c", "", never)
		give(r, c, hosts(2)...)
		r.Reconnect()
		require.Equal(t, "1", r.AwaitOpen(adscript.Clusters).Version)
		endpoints := r.AwaitOpen(adscript.Endpoints)
		require.Equal(t, "1", endpoints.Version)
		require.Empty(t, endpoints.Nonce)

		r.Send(adscript.Push("2", changed(c)))
		r.Settle()
		r.Reconnect()
		r.AwaitOpen(adscript.Endpoints)
		r.Settle()
		require.False(t, opened(r, adscript.Clusters))
		r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("c", hosts(2)...))))
		require.Equal(t, "2", r.AwaitOpen(adscript.Clusters).Version)
	})
}
