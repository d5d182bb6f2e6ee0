package envoyfacts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestFetchTimeouts_1_9 is why fetches of what is always sent do not time out, and why the server
// answers every name that is asked for.
func TestFetchTimeouts_1_9(t *testing.T) {
	fact(t, "with a timeout of 0 a cluster that warms again keeps its hosts", func(t *testing.T, r *adscript.Run) {
		start(r)
		endless, timed := adscript.EDSCluster("endless", "", 0), adscript.EDSCluster("timed", "", soon)
		giveCollection(r, endless, "endless/1", hosts(3)...)
		giveCollection(r, timed, "timed/1", hosts(3)...)
		r.Send(adscript.Push("2", changed(endless)), adscript.Push("2", changed(timed)))
		r.Send(adscript.Push("1", adscript.CollectionAssignment("endless", "endless/1", 0),
			adscript.CollectionAssignment("timed", "timed/1", soon)))
		r.Until("the other one has lost them", func() bool { return len(r.Hosts("timed")) == 0 })
		require.Equal(t, hosts(3), r.Hosts("endless"))
		require.Contains(t, r.Config().WarmingClusters, "endless")
	})
	fact(t, "a new cluster whose fetch times out goes live without hosts", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitAck(r.Send(adscript.Push("1", adscript.EDSCluster("c", "", soon))))
		require.Contains(t, r.ActiveClusters(), "c")
		require.Empty(t, r.Hosts("c"))
	})
}

// TestNodeIsSentOnceIfTheBootstrapSaysSo_1_10 is why the bootstrap says
// set_node_on_first_message_only, and why the first response for clusters is whole.
func TestNodeIsSentOnceIfTheBootstrapSaysSo_1_10(t *testing.T) {
	fact(t, "the node comes in the first message of a stream alone, if the bootstrap says so",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			r.Reconnect()
			r.Settle()
			stream := 0
			for _, req := range r.All() {
				require.Equal(t, req.Stream != stream, req.Node != nil, "%s", req)
				stream = req.Stream
			}
			require.Equal(t, 2, stream)
			require.Equal(t, "envoy", r.All()[0].Node.GetUserAgentName())
		})
	factWith(t, "and in every message otherwise", adscript.Options{NodeInEveryMessage: true},
		func(t *testing.T, r *adscript.Run) {
			start(r)
			r.Settle()
			for _, req := range r.All() {
				require.NotNil(t, req.Node, "%s", req)
				require.Greater(t, req.Bytes, 20_000, "%s", req)
			}
		})
	fact(t, "the first response for clusters counts as complete", func(t *testing.T, r *adscript.Run) {
		r.AwaitOpen(adscript.Clusters)
		r.Send(adscript.Push("1", adscript.StaticCluster("first", backend(t, "first"))))
		r.AwaitOpen(adscript.Listeners)
		open(r, "l", adscript.RouteTable("rc", adscript.VirtualHost("second", "second", "*")))
		require.True(t, r.Ready())
		require.Equal(t, 503, r.Get("l", "second.test", "/").Status)
		r.Send(adscript.Push("1", adscript.StaticCluster("second", backend(t, "second"))))
		r.Until("it answers", func() bool { return r.Get("l", "second.test", "/") == ok("second") })
	})
	fact(t, "responses written one behind the other count as one", func(t *testing.T, r *adscript.Run) {
		r.AwaitOpen(adscript.Clusters)
		a, b := adscript.EDSCluster("a", "", never), adscript.EDSCluster("b", "", never)
		r.Send(adscript.Push("1", a), adscript.Push("1", b))
		r.AwaitSubscribe(adscript.Endpoints, "b")
		r.Send(adscript.Push("1", adscript.Assignment("a", hosts(1)...)))
		r.Settle()
		require.Empty(t, requests(r, 0, adscript.Listeners))
		r.Send(adscript.Push("1", adscript.Assignment("b", hosts(1)...)))
		r.AwaitOpen(adscript.Listeners)
	})
}

// TestOneEDSNameServesOneCluster_1_11 is why each cluster has an EDS name, and a collection, of its
// own.
func TestOneEDSNameServesOneCluster_1_11(t *testing.T) {
	fact(t, "a second cluster of one EDS name asks for nothing", func(t *testing.T, r *adscript.Run) {
		start(r)
		first := r.Send(adscript.Push("1", adscript.EDSCluster("first", "shared", never)))
		r.AwaitSubscribe(adscript.Endpoints, "shared")
		r.Send(adscript.Push("1", adscript.Assignment("shared", hosts(3)...)))
		r.AwaitAck(first)
		mark := r.Mark()
		r.Send(adscript.Push("1", adscript.EDSCluster("second", "shared", never)))
		r.Settle()
		requireQuiet(t, r, mark)
		require.Contains(t, r.Config().WarmingClusters, "second")
		r.AwaitAck(r.Send(adscript.Push("1", adscript.Assignment("shared", hosts(3)...))))
		require.Equal(t, hosts(3), r.Hosts("second"))
	})
	fact(t, "a second cluster of one collection asks for nothing, and has what comes next",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveCollection(r, adscript.EDSCluster("first", "", never), "shared/1", hosts(3)...)
			r.Send(adscript.Push("1", adscript.EDSCluster("second", "", never)))
			r.AwaitSubscribe(adscript.Endpoints, "second")
			mark := r.Mark()
			r.AwaitAck(r.Send(adscript.Push("1", adscript.CollectionAssignment("second", "shared/1", never))))
			r.Settle()
			requireQuiet(t, r, mark)
			require.Contains(t, r.Config().WarmingClusters, "second")
			r.AwaitAck(r.Send(adscript.PushMembers("2", "shared/1", hosts(4)[3])))
			require.Equal(t, hosts(4), r.Hosts("first"))
			require.Equal(t, hosts(4)[3:], r.Hosts("second"))
		})
}
