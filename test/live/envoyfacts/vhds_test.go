package envoyfacts

import (
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// Test1_6 is what VHDS asks of a server that would use it.
func Test1_6(t *testing.T) {
	fact(t, "a route table asks for its virtual hosts without names, and a resource each is a small push", func(t *testing.T, r *adscript.Run) {
		start(r)
		asked := giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"), adscript.AnsweringHost("rc/b", "b", "b.test"))
		require.Empty(t, asked.Subscribe)
		r.AwaitAck(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/a", "A", "a.test"), adscript.AnsweringHost("rc/c", "c", "c.test")).Removing("rc/b")))
		r.Until("changed", func() bool { return r.Get("l", "a.test", "/") == ok("A") })
		require.Equal(t, ok("c"), r.Get("l", "c.test", "/"))
		require.Equal(t, 404, r.Get("l", "b.test", "/").Status)
	})
	fact(t, "a removal is ignored unless the virtual host has the resource's name", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/other", "other", "other.test"))
		r.AwaitAck(r.Send(adscript.PushNamed(adscript.VirtualHosts, "1", adscript.Resource{
			Name: "rc/a", Body: adscript.AnsweringHost("a", "a", "a.test"),
		})))
		r.Until("it answers", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
		r.AwaitAck(r.Send(adscript.Removal(adscript.VirtualHosts, "rc/a")))
		require.ElementsMatch(t, []string{"rc/other", "a"}, hostNames(r, "rc"))
	})
	fact(t, "a table without virtual hosts blocks its listener; an empty response does not help, removing any name does", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", never)))
		r.AwaitSubscribe(adscript.Routes, "rc")
		r.Send(adscript.Push("1", adscript.VHDSRouteTable("rc", never)))
		r.AwaitOpen(adscript.VirtualHosts)
		r.AwaitAck(r.Send(adscript.Removal(adscript.VirtualHosts)))
		r.Settle()
		require.Contains(t, r.Config().WarmingListeners, "l")
		r.AwaitAck(r.Send(adscript.Removal(adscript.VirtualHosts, "rc/sentinel")))
		r.Until("it answers", func() bool { return r.Get("l", "a.test", "/").Status == 404 })
	})
	fact(t, "or its fetch times out, for which a millisecond will do", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", never)))
		r.AwaitSubscribe(adscript.Routes, "rc")
		r.Send(adscript.Push("1", adscript.VHDSRouteTable("rc", time.Millisecond)))
		r.Until("it answers", func() bool { return r.Get("l", "a.test", "/").Status == 404 })
		r.AwaitOpen(adscript.VirtualHosts)
		r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test"))))
		r.Until("late, but there", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
	})
	fact(t, "one duplicate domain refuses the whole response", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
		r.AwaitNack(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/b", "b", "b.test"), adscript.AnsweringHost("rc/c", "c", "a.test"))))
		require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	})
	fact(t, "a domain moves from one host to another within one response", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test", "moves.test"))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/b", "b", "moves.test"), adscript.AnsweringHost("rc/a", "a", "a.test"))))
		r.Until("it moved", func() bool { return r.Get("l", "moves.test", "/") == ok("b") })
		r.AwaitAck(r.Send(adscript.Push("3", adscript.AnsweringHost("rc/c", "c", "moves.test")).Removing("rc/b")))
		r.Until("and again", func() bool { return r.Get("l", "moves.test", "/") == ok("c") })
	})
	fact(t, "a new version of the table keeps its virtual hosts", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
		mark := r.Mark()
		table := adscript.VHDSRouteTable("rc", never)
		table.ResponseHeadersToRemove = []string{"x"}
		r.AwaitAck(r.Send(adscript.Push("2", table)))
		requireQuiet(t, r, mark)
		require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	})
	fact(t, "a table that leaves VHDS and returns has its old virtual hosts again", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.RouteTable("rc", adscript.AnsweringHost("inline", "inline", "b.test")))))
		r.Until("inline", func() bool { return r.Get("l", "b.test", "/") == ok("inline") })
		inline := hostNames(r, "rc")
		r.AwaitAck(r.Send(adscript.Push("3", adscript.VHDSRouteTable("rc", soon))))
		r.Until("returned", func() bool { return r.Get("l", "b.test", "/").Status == 404 })
		require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
		require.Equal(t, []string{"inline"}, inline)
	})
	fact(t, "a second table asks for nothing, and takes what is pushed", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l1", "rc1", adscript.AnsweringHost("rc1/a", "a", "*"))
		r.Send(adscript.Push("1", adscript.HTTPListener("l2", "rc2", never)))
		r.AwaitSubscribe(adscript.Routes, "rc2")
		mark := r.Mark()
		r.AwaitAck(r.Send(adscript.Push("1", adscript.VHDSRouteTable("rc2", never))))
		r.Settle()
		require.Empty(t, requests(r, mark, adscript.VirtualHosts))
		require.Contains(t, r.Config().WarmingListeners, "l2")
		r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rc2/b", "b", "*"))))
		r.Until("it answers", func() bool { return r.Get("l2", "b.test", "/") == ok("b") })
		require.Equal(t, []string{"rc1/a"}, hostNames(r, "rc1"))
	})
	fact(t, "a table's name ends at the last slash", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "team/rc", adscript.AnsweringHost("team/rc/a", "a", "a.test"))
		r.Until("it answers", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
		r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("team/rc/b/c", "c", "c.test"))))
		require.Equal(t, []string{"team/rc/a"}, hostNames(r, "team/rc"))
	})
}

// giveHosts adds a listener whose routes come by VHDS, and returns the request for virtual hosts.
func giveHosts(r *adscript.Run, listener, routes string, all ...*routev3.VirtualHost) adscript.Request {
	r.Send(adscript.Push("1", adscript.HTTPListener(listener, routes, never)))
	r.AwaitSubscribe(adscript.Routes, routes)
	r.Send(adscript.Push("1", adscript.VHDSRouteTable(routes, never)))
	asked := r.AwaitOpen(adscript.VirtualHosts)
	push := adscript.Response{Type: adscript.VirtualHosts, Version: "1"}
	for _, h := range all {
		push.Resources = append(push.Resources, adscript.Push("1", h).Resources...)
	}
	r.AwaitAck(r.Send(push))
	r.Until(listener+" answers", func() bool { return r.Get(listener, "none.test", "/").Status != 0 })
	return asked
}

// hostNames are the names of a table's virtual hosts, as Envoy has them.
func hostNames(r *adscript.Run, table string) []string {
	var names []string
	for _, h := range r.Config().Routes[table].Body.(*routev3.RouteConfiguration).GetVirtualHosts() {
		names = append(names, h.GetName())
	}
	return names
}
