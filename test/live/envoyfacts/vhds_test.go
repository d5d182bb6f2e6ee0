package envoyfacts

import (
	"slices"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestVHDSTakesHostsOfItsTable_1_6 is what VHDS asks of a server that would use it.
func TestVHDSTakesHostsOfItsTable_1_6(t *testing.T) {
	fact(t, "a route table asks for its virtual hosts without names, and a resource each is a small push",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			asked := giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"),
				adscript.AnsweringHost("rc/b", "b", "b.test"))
			require.Empty(t, asked.Subscribe)
			r.AwaitAck(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/a", "A", "a.test"),
				adscript.AnsweringHost("rc/c", "c", "c.test")).Removing("rc/b")))
			r.Until("changed", func() bool { return r.Get("l", "a.test", "/") == ok("A") })
			require.Equal(t, ok("c"), r.Get("l", "c.test", "/"))
			require.Equal(t, 404, r.Get("l", "b.test", "/").Status)
		})
	fact(t, "a removal is ignored unless the virtual host has the resource's name",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/other", "other", "other.test"))
			r.AwaitAck(r.Send(adscript.PushNamed(adscript.VirtualHosts, "1", adscript.Resource{
				Name: "rc/a", Body: adscript.AnsweringHost("a", "a", "a.test"),
			})))
			r.Until("it answers", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
			r.AwaitAck(r.Send(adscript.Removal(adscript.VirtualHosts, "rc/a")))
			require.ElementsMatch(t, []string{"rc/other", "a"}, hostNames(r, "rc"))
		})
	fact(t, "a table without virtual hosts blocks its listener; an empty response does not help, removing any name "+
		"does", func(t *testing.T, r *adscript.Run) {
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
		r.AwaitNack(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/b", "b", "b.test"),
			adscript.AnsweringHost("rc/c", "c", "a.test"))))
		require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	})
	fact(t, "a domain moves from one host to another within one response", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test", "moves.test"))
		r.AwaitAck(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/b", "b", "moves.test"),
			adscript.AnsweringHost("rc/a", "a", "a.test"))))
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
	fact(t, "a table that leaves VHDS and returns has its old virtual hosts again",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
			r.AwaitAck(r.Send(adscript.Push("2",
				adscript.RouteTable("rc", adscript.AnsweringHost("inline", "inline", "b.test")))))
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
	fact(t, "the form of a table in use changes at once: without a virtual host until they come",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "a.test")))
			r.AwaitAck(r.Send(adscript.Push("2", adscript.VHDSRouteTable("rc", never))))
			r.Until("no route", func() bool { return r.Get("l", "a.test", "/").Status == 404 })
			r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test"))))
			r.Until("it answers", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
		})
	fact(t, "a table cannot have a domain in both forms", func(t *testing.T, r *adscript.Run) {
		start(r)
		table := adscript.VHDSRouteTable("rc", never)
		table.VirtualHosts = []*routev3.VirtualHost{adscript.AnsweringHost("rc/a", "inline", "a.test")}
		open(r, "l", adscript.RouteTable("rc"))
		r.AwaitAck(r.Send(adscript.Push("2", table)))
		r.AwaitNack(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test"))))
	})
	fact(t, "a table's name ends at the last slash", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "team/rc", adscript.AnsweringHost("team/rc/a", "a", "a.test"))
		r.Until("it answers", func() bool { return r.Get("l", "a.test", "/") == ok("a") })
		r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("team/rc/b/c", "c", "c.test"))))
		require.Equal(t, []string{"team/rc/a"}, hostNames(r, "team/rc"))
	})
}

// TestListenerStopsWaitingForVirtualHosts is what ends the wait of a listener for virtual hosts,
// besides those.
func TestListenerStopsWaitingForVirtualHosts(t *testing.T) {
	fact(t, "a burst of listener, head and virtual hosts is taken, before anything is asked for",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			r.AwaitAck(r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", never)),
				adscript.Push("1", adscript.VHDSRouteTable("rc", never)),
				adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test"))))
			require.Empty(t, r.Config().WarmingListeners)
			require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
		})
	fact(t, "virtual hosts that come before the first head are dropped without an answer",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", never)))
			r.AwaitSubscribe(adscript.Routes, "rc")
			hosts := r.Send(adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test")))
			r.AwaitAck(r.Send(adscript.Push("1", adscript.VHDSRouteTable("rc", never))))
			require.Empty(t, r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
			r.Settle()
			require.False(t, r.Answered(hosts))
			require.Contains(t, r.Config().WarmingListeners, "l")
		})
	fact(t, "what is removed may stand beside what comes, and must be of the table",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHead(r, "l", "rc")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("other/a", "a", "a.test")).Removing("other/*")))
			r.Settle()
			require.Contains(t, r.Config().WarmingListeners, "l")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test")).Removing("rc/*",
				"other/*")))
			require.Empty(t, r.Config().WarmingListeners)
			r.Reconnect()
			require.Equal(t, map[string]string{"rc/a": "1", "other/a": "1"},
				r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
		})
	fact(t, "a refused response for virtual hosts lets all listeners go to work", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
		giveHead(r, "m", "rm")
		r.Settle()
		require.Contains(t, r.Config().WarmingListeners, "m")
		r.AwaitNack(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/b", "b", "a.test"))))
		r.Until("it answers", func() bool { return r.Get("m", "a.test", "/").Status == 404 })
		r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rm/a", "a", "a.test"))))
		r.Until("late, but there", func() bool { return r.Get("m", "a.test", "/") == ok("a") })
	})
	fact(t, "so does a refused response for routes", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
		giveHead(r, "m", "rm")
		r.AwaitNack(r.Send(adscript.Push("2", twice("rc"))))
		r.Until("it answers", func() bool { return r.Get("m", "a.test", "/").Status == 404 })
		require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
	})
	fact(t, "Envoy is not ready before", func(t *testing.T, r *adscript.Run) {
		r.AwaitOpen(adscript.Clusters)
		r.Send(adscript.Push("0", adscript.StaticCluster("anchor")))
		r.AwaitOpen(adscript.Listeners)
		giveHead(r, "l", "rc")
		r.Settle()
		require.False(t, r.Ready())
		r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/a", "a", "a.test"))))
		r.Until("ready", r.Ready)
	})
}

// TestReportedVersionsOfVirtualHostsCannotBeTrusted is why a server cannot trust the versions that
// Envoy reports of virtual hosts, unless it has seen to it.
func TestReportedVersionsOfVirtualHostsCannotBeTrusted(t *testing.T) {
	fact(t, "what no table takes is acknowledged, and reported, until it is removed",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
			r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("absent/a", "a", "a.test"),
				adscript.AnsweringHost("absent/b", "b", "b.test"))))
			giveHead(r, "m", "absent")
			r.Settle()
			require.Contains(t, r.Config().WarmingListeners, "m")
			r.Reconnect()
			require.Equal(t, map[string]string{"rc/a": "1", "absent/a": "1", "absent/b": "1"},
				r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
			r.AwaitAck(r.Send(adscript.Removal(adscript.VirtualHosts, "absent/a")))
			r.Reconnect()
			require.Equal(t, map[string]string{"rc/a": "1", "absent/b": "1"},
				r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
		})
	fact(t, "a table that goes and returns has lost its virtual hosts, and reports them",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
			r.AwaitAck(r.Send(adscript.Removal(adscript.Listeners, "l")))
			r.AwaitUnsubscribe(adscript.Routes, "rc")
			giveHead(r, "l", "rc")
			r.Settle()
			require.Contains(t, r.Config().WarmingListeners, "l")
			require.Empty(t, hostNames(r, "rc"))
			r.Reconnect()
			require.Equal(t, map[string]string{"rc": "1"}, r.AwaitOpen(adscript.Routes).InitialVersions)
			require.Equal(t, map[string]string{"rc/a": "1"}, r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
			r.Settle()
			require.Contains(t, r.Config().WarmingListeners, "l")
		})
	fact(t, "while no table is left, the type stays open: responses are acknowledged and reported",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
			r.AwaitAck(r.Send(adscript.Removal(adscript.Listeners, "l")))
			r.AwaitUnsubscribe(adscript.Routes, "rc")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rc/b", "b", "b.test")).Removing("rc/a")))
			r.Reconnect()
			require.Equal(t, map[string]string{"rc/b": "1"}, r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
		})
	fact(t, "a table that left VHDS ignores what is pushed and removed, and returns as it left",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
			r.AwaitAck(r.Send(adscript.Push("2",
				adscript.RouteTable("rc", adscript.AnsweringHost("inline", "inline", "b.test")))))
			r.AwaitAck(r.Send(adscript.Push("2", adscript.AnsweringHost("rc/c", "c", "c.test")).Removing("rc/a")))
			require.Equal(t, []string{"inline"}, hostNames(r, "rc"))
			r.AwaitAck(r.Send(adscript.Push("3", adscript.VHDSRouteTable("rc", never)),
				adscript.Push("3", adscript.AnsweringHost("rc/d", "d", "d.test"))))
			require.Equal(t, []string{"rc/a", "rc/d"}, hostNames(r, "rc"))
			r.Reconnect()
			require.Equal(t, map[string]string{"rc/c": "2", "rc/d": "3"},
				r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
			r.AwaitAck(r.Send(adscript.Removal(adscript.VirtualHosts, "rc/a")))
			require.Equal(t, []string{"rc/d"}, hostNames(r, "rc"))
		})
	fact(t, "a refused response is taken whole by some tables and not by others, and no version advances",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"),
				adscript.AnsweringHost("rc/r", "r", "r.test"))
			giveHead(r, "m", "rm")
			r.AwaitAck(r.Send(adscript.Push("1", adscript.AnsweringHost("rm/a", "a", "a.test"))))
			r.AwaitNack(r.Send(pushHosts("2", adscript.AnsweringHost("rc/b", "b", "b.test"),
				adscript.AnsweringHost("rm/b", "b", "b.test"),
				adscript.AnsweringHost("rc/x", "x", "a.test")).Removing("rc/r")))
			require.Equal(t, []string{"rc/a", "rc/r"}, hostNames(r, "rc"))
			require.Subset(t, []string{"rm/a", "rm/b"}, hostNames(r, "rm"))
			r.Reconnect()
			require.Equal(t, map[string]string{"rc/a": "1", "rc/r": "1", "rm/a": "1"},
				r.AwaitOpen(adscript.VirtualHosts).InitialVersions)
		})
	fact(t, "of one that breaks a rule or cannot be decoded nothing is taken, unless no table wants it",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveHosts(r, "l", "rc", adscript.AnsweringHost("rc/a", "a", "a.test"))
			undecodable := adscript.Resource{Name: "rc/b", Raw: []byte{0xff}}
			good := adscript.Resource{Name: "rc/c", Body: adscript.AnsweringHost("rc/c", "c", "c.test")}
			r.AwaitNack(r.Send(adscript.PushNamed(adscript.VirtualHosts, "2", good, undecodable)))
			r.AwaitNack(r.Send(pushHosts("2", adscript.AnsweringHost("rc/c", "c", "c.test"),
				adscript.AnsweringHost("rc/b", "b"))))
			require.Equal(t, []string{"rc/a"}, hostNames(r, "rc"))
			undecodable.Name = "absent/b"
			r.AwaitAck(r.Send(adscript.PushNamed(adscript.VirtualHosts, "2", good, undecodable)))
			require.Equal(t, []string{"rc/a", "rc/c"}, hostNames(r, "rc"))
		})
}

// giveHosts adds a listener whose routes come by VHDS, and returns the first request for virtual
// hosts.
func giveHosts(r *adscript.Run, listener, routes string, all ...*routev3.VirtualHost) adscript.Request {
	giveHead(r, listener, routes)
	asked := r.AwaitOpen(adscript.VirtualHosts)
	r.AwaitAck(r.Send(pushHosts("1", all...)))
	r.Until(listener+" answers", func() bool { return r.Get(listener, "none.test", "/").Status != 0 })
	return asked
}

// giveHead adds a listener and the head of its table, and no virtual hosts.
func giveHead(r *adscript.Run, listener, routes string) {
	r.Send(adscript.Push("1", adscript.HTTPListener(listener, routes, never)))
	r.AwaitSubscribe(adscript.Routes, routes)
	r.AwaitAck(r.Send(adscript.Push("1", adscript.VHDSRouteTable(routes, never))))
}

func pushHosts(version string, all ...*routev3.VirtualHost) adscript.Response {
	push := adscript.Response{Type: adscript.VirtualHosts, Version: version}
	for _, h := range all {
		push.Resources = append(push.Resources, adscript.Push(version, h).Resources...)
	}
	return push
}

// hostNames are the names of a table's virtual hosts, as Envoy has them; nil if there is no such
// table.
func hostNames(r *adscript.Run, table string) []string {
	held, ok := r.Config().Routes[table]
	if !ok {
		return nil
	}
	names := []string{}
	for _, h := range held.Body.(*routev3.RouteConfiguration).GetVirtualHosts() {
		names = append(names, h.GetName())
	}
	slices.Sort(names)
	return names
}
