package envoyfacts

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestReconnectDoesNotReportMembersOfCollections_1_2 is what a server can know of a client that
// comes back: all but the members of collections, so that these need a new name then.
func TestReconnectDoesNotReportMembersOfCollections_1_2(t *testing.T) {
	fact(t, "what a client holds is reported, but for the members of collections", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(2)...)
		r.Send(adscript.Push("3", adscript.HTTPListener("l", "rc", never)))
		r.AwaitSubscribe(adscript.Routes, "rc")
		r.Send(adscript.Push("4", adscript.VHDSRouteTable("rc", never)))
		r.AwaitOpen(adscript.VirtualHosts)
		r.AwaitAck(r.Send(adscript.Push("5", adscript.AnsweringHost("rc/a", "a", "a.test"))))
		r.Reconnect()
		clusters := r.AwaitOpen(adscript.Clusters)
		require.Equal(t, map[string]string{"anchor": "0", "c": "1"}, clusters.InitialVersions)
		require.Empty(t, clusters.Subscribe)
		require.Equal(t, map[string]string{"c": "1"}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
		require.Equal(t, map[string]string{"l": "3"}, r.AwaitOpen(adscript.Listeners).InitialVersions)
		require.Equal(t, map[string]string{"rc": "4"}, r.AwaitOpen(adscript.Routes).InitialVersions)
		require.Equal(t, map[string]string{"rc/a": "5"}, r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
		members := r.AwaitSubscribe(adscript.Members, adscript.Collection("c/1")+"*")
		require.Empty(t, members.InitialVersions)
	})
	fact(t, "members that are no longer sent are kept, also when the collection is removed",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(4)...)
			r.Reconnect()
			r.AwaitSubscribe(adscript.Members, adscript.Collection("c/1")+"*")
			r.AwaitAck(r.Send(adscript.PushMembers("2", "c/1", hosts(3)...)))
			require.Equal(t, hosts(4), r.Hosts("c"))
			r.AwaitAck(r.Send(adscript.Removal(adscript.Members, adscript.Collection("c/1")+"*")))
			require.Equal(t, hosts(4), r.Hosts("c"))
			r.AwaitAck(r.Send(adscript.Removal(adscript.Members, adscript.Collection("c/1")+hosts(4)[3])))
			require.Equal(t, hosts(3), r.Hosts("c"))
		})
	fact(t, "a collection of a new name is exact", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(4)...)
		r.Reconnect()
		r.AwaitSubscribe(adscript.Endpoints, "c")
		r.Send(adscript.Push("2", adscript.CollectionAssignment("c", "c/2", never)))
		r.AwaitSubscribe(adscript.Members, adscript.Collection("c/2")+"*")
		require.Equal(t, hosts(4), r.Hosts("c"))
		r.AwaitAck(r.Send(adscript.PushMembers("1", "c/2", hosts(3)...)))
		require.Equal(t, hosts(3), r.Hosts("c"))
	})
	fact(t, "a server that says nothing on a new stream changes nothing", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("c", "", soon), backend(t, "c"))
		open(r, "l", adscript.RouteTable("rc", adscript.VirtualHost("c", "c", "*")))
		r.Reconnect()
		r.AwaitOpen(adscript.Routes)
		r.Settle()
		require.Equal(t, ok("c"), r.Get("l", "c.test", "/"))
		require.Empty(t, r.Config().WarmingClusters)
	})
	fact(t, "a cluster that warms over a reconnect reports its endpoints, and waits for them all the same",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			c := adscript.EDSCluster("c", "", never)
			give(r, c, hosts(2)...)
			r.Send(adscript.Push("2", changed(c)))
			r.Settle()
			r.Reconnect()
			require.Equal(t, map[string]string{"c": "1"}, r.AwaitSubscribe(adscript.Endpoints, "c").InitialVersions)
			r.AwaitAck(r.Send(adscript.Removal(adscript.Endpoints)))
			r.Settle()
			require.Contains(t, r.Config().WarmingClusters, "c")
			require.False(t, opened(r, adscript.Clusters), "the type is not even opened on the new stream")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("c", hosts(2)...))))
			require.Equal(t, map[string]string{"anchor": "0", "c": "2"}, r.AwaitOpen(adscript.Clusters).InitialVersions)
			require.Empty(t, r.Config().WarmingClusters)
			require.True(t, inUse(r, changed(c)))
		})
}

// TestSealedCollectionSurvivesAReconnect is what a server may do about collections: send the
// assignment again as it is, with a version that says what the members are. It holds under two
// conditions, which are here too.
func TestSealedCollectionSurvivesAReconnect(t *testing.T) {
	sealed := func(r *adscript.Run) *clusterv3.Cluster {
		c := adscript.EDSCluster("c", "", never)
		giveCollection(r, c, "c/1", hosts(3)...)
		mark := r.Mark()
		r.AwaitAck(r.Send(adscript.Push("seal", adscript.CollectionAssignment("c", "c/1", soon))))
		requireQuiet(t, r, mark)
		return c
	}
	fact(t, "it asks for nothing, is reported, and the members are taken up where they were",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			sealed(r)
			r.Reconnect()
			require.Equal(t, map[string]string{"c": "seal"}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
			r.AwaitOpen(adscript.Members)
			r.AwaitAck(r.Send(adscript.PushMembers("2", "c/1", "127.0.0.1:3000").Removing(adscript.Collection("c/1") +
				hosts(3)[0])))
			require.Equal(t, append(hosts(3)[1:], "127.0.0.1:3000"), r.Hosts("c"))
		})
	fact(t, "members that change behind it do not end it: it has to be broken first",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			sealed(r)
			r.AwaitAck(r.Send(adscript.Removal(adscript.Members, adscript.Collection("c/1")+hosts(3)[0])))
			r.Reconnect()
			require.Equal(t, map[string]string{"c": "seal"}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
			r.AwaitAck(r.Send(adscript.Push("broken", adscript.CollectionAssignment("c", "c/1", soon))))
			r.Reconnect()
			require.Equal(t, map[string]string{"c": "broken"}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
		})
	fact(t, "a cluster that warms reports it, and has no member", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := sealed(r)
		r.Send(adscript.Push("2", changed(c)))
		r.Settle()
		r.Reconnect()
		require.Equal(t, map[string]string{"c": "seal"}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
		r.Settle()
		require.False(t, opened(r, adscript.Clusters))
		require.Contains(t, r.Config().WarmingClusters, "c")
	})
}

// TestRemovingAnAssignmentRemovesNoEndpoint_1_3 is why endpoints and routes are emptied and never
// removed while they are subscribed to.
func TestRemovingAnAssignmentRemovesNoEndpoint_1_3(t *testing.T) {
	fact(t, "removing an assignment removes no endpoint, an empty one does", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("c", "", never), backend(t, "c"))
		open(r, "l", adscript.RouteTable("rc", adscript.VirtualHost("c", "c", "*")))
		r.AwaitAck(r.Send(adscript.Removal(adscript.Endpoints, "c")))
		require.Len(t, r.Hosts("c"), 1)
		require.Equal(t, ok("c"), r.Get("l", "c.test", "/"))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.Assignment("c"))))
		require.Empty(t, r.Hosts("c"))
		r.Until("no host to go to", func() bool { return r.Get("l", "c.test", "/").Status == 503 })
	})
	fact(t, "removing an assignment that a cluster waits for ends its warming, without hosts",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			c := adscript.EDSCluster("c", "", never)
			cds := r.Send(adscript.Push("1", c))
			r.AwaitSubscribe(adscript.Endpoints, "c")
			r.Send(adscript.Removal(adscript.Endpoints, "c"))
			r.AwaitAck(cds)
			require.Contains(t, r.ActiveClusters(), "c")
			require.Empty(t, r.Hosts("c"))

			r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("c", hosts(2)...))))
			again := r.Send(adscript.Push("2", changed(c)))
			r.Send(adscript.Removal(adscript.Endpoints, "c"))
			r.AwaitAck(again)
			require.True(t, inUse(r, changed(c)))
			require.Empty(t, r.Hosts("c"))
		})
	fact(t, "removing a route table is ignored, an empty one answers 404", func(t *testing.T, r *adscript.Run) {
		start(r)
		open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))
		r.AwaitAck(r.Send(adscript.Removal(adscript.Routes, "rc")))
		require.Contains(t, r.Config().Routes, "rc")
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.RouteTable("rc"))))
		r.Until("no route", func() bool { return r.Get("l", "a.test", "/").Status == 404 })
	})
	fact(t, "removing a route table that a listener waits for leaves it warming, an empty one opens it",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", never)))
			r.AwaitSubscribe(adscript.Routes, "rc")
			r.AwaitAck(r.Send(adscript.Removal(adscript.Routes, "rc")))
			require.Contains(t, r.Config().WarmingListeners, "l")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.RouteTable("rc"))))
			r.Until("it answers", func() bool { return r.Get("l", "a.test", "/").Status == 404 })
		})
	fact(t, "a cluster that goes takes its subscription along", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("c", "", never), hosts(1)...)
		r.Send(adscript.Removal(adscript.Clusters, "c"))
		r.AwaitUnsubscribe(adscript.Endpoints, "c")
		require.NotContains(t, r.ActiveClusters(), "c")
	})
}

// open adds a listener with a route table, and returns when it answers.
func open(r *adscript.Run, listener string, routes *routev3.RouteConfiguration) {
	r.Send(adscript.Push("1", adscript.HTTPListener(listener, routes.GetName(), never)))
	r.AwaitSubscribe(adscript.Routes, routes.GetName())
	r.AwaitAck(r.Send(adscript.Push("1", routes)))
	r.Until(listener+" answers", func() bool { return r.Get(listener, "none.test", "/").Status != 0 })
}
