package envoyfacts

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestChangedClusterWarmsAgainAndNeedsItsEndpoints_1_1 is why a cluster that is sent obliges the
// session to send its endpoints behind it (P10), and why LEDS needs a new collection name for the
// same.
func TestChangedClusterWarmsAgainAndNeedsItsEndpoints_1_1(t *testing.T) {
	fact(t, "a cluster that changes warms, asks for nothing, and the old one serves on",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			c := adscript.EDSCluster("c", "", never)
			give(r, c, hosts(3)...)
			mark := r.Mark()
			cds := r.Send(adscript.Push("2", changed(c)))
			r.Settle()
			requireQuiet(t, r, mark)
			require.False(t, r.Answered(cds))
			require.Equal(t, "2", r.Config().WarmingClusters["c"].Version)
			require.Equal(t, hosts(3), r.Hosts("c"))
			require.False(t, inUse(r, changed(c)))
		})
	fact(t, "the same endpoints sent behind it end the warming", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", never)
		give(r, c, hosts(3)...)
		cds := r.Send(adscript.Push("2", changed(c)))
		r.Send(adscript.Push("1", adscript.Assignment("c", hosts(3)...)))
		r.AwaitAck(cds)
		require.True(t, inUse(r, changed(c)))
		require.Equal(t, hosts(3), r.Hosts("c"))
	})
	fact(t, "left alone it goes live with its old hosts when its fetch times out", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", soon)
		give(r, c, hosts(3)...)
		r.AwaitAck(r.Send(adscript.Push("2", changed(c))))
		require.True(t, inUse(r, changed(c)))
		require.Equal(t, hosts(3), r.Hosts("c"))
		require.Equal(t, 1, r.Stat("cluster.c.assignment_use_cached"))
	})
	fact(t, "LEDS: without its collection it goes live with no hosts", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", soon)
		giveCollection(r, c, "c/1", hosts(3)...)
		mark := r.Mark()
		cds := r.Send(adscript.Push("2", changed(c)))
		r.Send(adscript.Push("1", adscript.CollectionAssignment("c", "c/1", soon)))
		r.Settle()
		requireQuiet(t, r, mark)
		meanwhile := r.Hosts("c")
		r.Settle()
		if !r.Answered(cds) { // the fetch has not ended
			require.Equal(t, hosts(3), meanwhile)
		}
		r.AwaitAck(cds)
		require.True(t, inUse(r, changed(c)))
		require.Empty(t, r.Hosts("c"))
	})
	fact(t, "LEDS: with part of its collection it goes live with that part", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", never)
		giveCollection(r, c, "c/1", hosts(3)...)
		cds := r.Send(adscript.Push("2", changed(c)))
		r.Send(adscript.Push("1", adscript.CollectionAssignment("c", "c/1", never)),
			adscript.PushMembers("2", "c/1", hosts(1)...))
		r.AwaitAck(cds)
		require.Equal(t, hosts(1), r.Hosts("c"))
	})
	fact(t, "LEDS: with its whole collection it goes live", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", never)
		giveCollection(r, c, "c/1", hosts(3)...)
		cds := r.Send(adscript.Push("2", changed(c)))
		r.Send(adscript.Push("1", adscript.CollectionAssignment("c", "c/1", never)),
			adscript.PushMembers("1", "c/1", hosts(3)...))
		r.AwaitAck(cds)
		require.Equal(t, hosts(3), r.Hosts("c"))
	})
	fact(t, "LEDS: a new collection name makes it ask, and drops the old one", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", never)
		giveCollection(r, c, "c/1", hosts(3)...)
		cds := r.Send(adscript.Push("2", changed(c)))
		r.Send(adscript.Push("2", adscript.CollectionAssignment("c", "c/2", never)))
		r.AwaitSubscribe(adscript.Members, adscript.Collection("c/2")+"*")
		require.Equal(t, hosts(3), r.Hosts("c"))
		r.Send(adscript.PushMembers("1", "c/2", hosts(3)...))
		r.AwaitAck(cds)
		require.Equal(t, hosts(3), r.Hosts("c"))
		r.AwaitUnsubscribe(adscript.Members, adscript.Collection("c/1")+"*")
	})
	fact(t, "a cluster sent again as it is does not warm", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.EDSCluster("c", "", never)
		give(r, c, hosts(3)...)
		r.AwaitAck(r.Send(adscript.Push("2", c)))
		require.Empty(t, r.Config().WarmingClusters)
		require.Equal(t, hosts(3), r.Hosts("c"))
	})
}

// TestAckOfClustersWaitsForWarming_1_4 is the order of the session: endpoints behind their cluster
// in one burst, listeners and routes after the ACK, at most Hold later.
func TestAckOfClustersWaitsForWarming_1_4(t *testing.T) {
	fact(t, "the ACK of clusters is withheld while any warms, what is pushed is applied",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			warming := r.Send(adscript.Push("1", adscript.EDSCluster("c", "", never)))
			other := r.Send(adscript.Push("1", adscript.StaticCluster("other", hosts(1)...)))
			r.AwaitSubscribe(adscript.Endpoints, "c")
			r.AwaitAck(r.Send(adscript.Response{Type: adscript.Endpoints, Version: "1"}))
			r.Settle()
			require.False(t, r.Answered(warming))
			require.False(t, r.Answered(other))
			require.Equal(t, hosts(1), r.Hosts("other"))
			r.Send(adscript.Push("1", adscript.Assignment("c", hosts(1)...)))
			r.AwaitAck(warming)
			r.AwaitAck(other)
		})
	fact(t, "not at the start: there it asks for listeners only when all are warm",
		func(t *testing.T, r *adscript.Run) {
			r.AwaitOpen(adscript.Clusters)
			cds := r.Send(adscript.Push("1", adscript.EDSCluster("c", "", never)))
			r.AwaitAck(cds)
			r.Settle()
			require.Contains(t, r.Config().WarmingClusters, "c")
			require.Empty(t, requests(r, 0, adscript.Listeners))
			r.Send(adscript.Push("1", adscript.Assignment("c", hosts(1)...)))
			r.AwaitOpen(adscript.Listeners)
			require.Equal(t, hosts(1), r.Hosts("c"))
		})
	fact(t, "cut off at its start, it reports the right endpoints, waits for them, and does not ask for listeners",
		func(t *testing.T, r *adscript.Run) {
			r.AwaitOpen(adscript.Clusters)
			c, other := adscript.EDSCluster("c", "", never), adscript.EDSCluster("other", "", never)
			r.Send(adscript.Push("1", c, other))
			r.AwaitSubscribe(adscript.Endpoints, "c")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("c", hosts(2)...))))
			r.AwaitAck(r.Send(adscript.Push("2", changed(c))))
			r.Reconnect()
			require.Equal(t, map[string]string{"c": "2", "other": "1"}, r.AwaitOpen(adscript.Clusters).InitialVersions)
			require.Equal(t, map[string]string{"c": "1"}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
			r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("other", hosts(1)...))))
			r.AwaitAck(r.Send(adscript.Response{Type: adscript.Endpoints, Version: "2"}))
			r.Settle()
			require.False(t, opened(r, adscript.Listeners))
			r.Send(adscript.Push("1", adscript.Assignment("c", hosts(2)...)))
			r.AwaitOpen(adscript.Listeners)
			require.Equal(t, hosts(2), r.Hosts("c"))
		})
	fact(t, "endpoints in one burst behind their new cluster are taken", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("first", "", never), hosts(1)...)
		cds := r.Send(adscript.Push("1", adscript.EDSCluster("c", "", never)))
		r.Send(adscript.Push("1", adscript.Assignment("c", hosts(3)...)))
		r.AwaitAck(cds)
		require.Empty(t, r.Config().WarmingClusters)
		require.Equal(t, hosts(3), r.Hosts("c"))
		r.AwaitSubscribe(adscript.Endpoints, "c")
	})
	fact(t, "a new virtual host behind both in the same burst is never without its cluster",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("first", "", never), hosts(1)...)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/rest", "rest", "*"))
			service := backend(t, "service")
			for i := range 20 {
				cluster := fmt.Sprintf("c%d", i)
				host := cluster + ".test"
				require.Equal(t, ok("rest"), r.Get("l", host, "/"))
				at, others := r.Address("l"), make(chan []adscript.Answer)
				go func() { others <- callUntil(at, host, ok("service")) }()
				r.AwaitAck(r.Send(
					adscript.Push("1", adscript.EDSCluster(cluster, "", never)),
					adscript.Push("1", adscript.Assignment(cluster, service)),
					adscript.Push("1", adscript.VirtualHost("rc/"+cluster, cluster, host)),
				))
				require.Subset(t, []adscript.Answer{ok("rest")}, <-others)
			}
		})
	fact(t, "also at the start, before the type was asked for", func(t *testing.T, r *adscript.Run) {
		r.AwaitOpen(adscript.Clusters)
		all := adscript.Response{Type: adscript.Clusters, Version: "1"}
		endpoints := adscript.Response{Type: adscript.Endpoints, Version: "1"}
		for i := range 200 {
			name := fmt.Sprintf("c%d", i)
			all.Resources = append(all.Resources, adscript.Push("1", adscript.EDSCluster(name, "", never)).Resources...)
			endpoints.Resources = append(endpoints.Resources,
				adscript.Push("1", adscript.Assignment(name, hosts(3)...)).Resources...)
		}
		r.Send(all, endpoints)
		r.AwaitOpen(adscript.Listeners)
		require.Equal(t, hosts(3), r.Hosts("c199"))
	})
	fact(t, "a response of a type that nothing subscribes to is dropped without an answer",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			refused := adscript.EDSCluster("c", "", never)
			refused.TransportSocket = &corev3.TransportSocket{Name: "unknown"}
			r.AwaitNack(r.Send(adscript.Push("1", refused)))
			eds := r.Send(adscript.Push("1", adscript.Assignment("c", hosts(3)...)))
			r.Settle()
			require.False(t, r.Answered(eds))
		})
	fact(t, "endpoints that come before their cluster are dropped", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("first", "", never), hosts(1)...)
		r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("c", hosts(3)...))))
		r.Send(adscript.Push("1", adscript.EDSCluster("c", "", never)))
		r.AwaitSubscribe(adscript.Endpoints, "c")
		r.Settle()
		require.Contains(t, r.Config().WarmingClusters, "c")
	})
	fact(t, "a refused response for endpoints ends all warming, without endpoints",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			c := adscript.EDSCluster("c", "", never)
			give(r, adscript.EDSCluster("first", "", never), hosts(1)...)
			give(r, c, hosts(2)...)
			cds := r.Send(adscript.Push("1", adscript.EDSCluster("a", "", never), adscript.EDSCluster("b", "", never),
				changed(c)))
			r.AwaitNack(r.Send(adscript.Push("1", adscript.Assignment("a", "no-address"))))
			r.AwaitAck(cds)
			for _, name := range []string{"a", "b", "c"} {
				require.Contains(t, r.ActiveClusters(), name)
				require.Empty(t, r.Hosts(name))
			}
			require.Equal(t, hosts(1), r.Hosts("first"))
		})
}

// callUntil sends requests one upon the other until one is answered so, or not at all, and tells
// what the others were answered, each once.
func callUntil(at netip.AddrPort, host string, answer adscript.Answer) (others []adscript.Answer) {
	for {
		a := adscript.Call(at, host, "/")
		if a == answer {
			return others
		}
		if !slices.Contains(others, a) {
			others = append(others, a)
		}
		if a.Status == 0 {
			return others
		}
	}
}
