package envoyfacts

import (
	"flag"
	"fmt"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

var cost = flag.Bool(
	"cost", false, "measure what a change costs Envoy in each form of a list; the table is for docs/performance.md",
)

// updates is how many changes are measured of each form and size. The forms take turns, so that
// both have the same machine.
const updates = 50

// form is one way to keep a list in an Envoy of its own.
type form struct {
	name   string
	fill   func(r *adscript.Run, n int)
	change func(n, i int) adscript.Response // the i-th change: it touches one entry
}

// TestCostOfAChangeIsMeasured measures Envoy's processor time and the bytes of a change of one
// entry in a list, sent whole and sent as resources of their own. It asserts nothing but that the
// changes are taken.
func TestCostOfAChangeIsMeasured(t *testing.T) {
	if !*cost {
		t.Skip("takes two minutes: ask for it with -cost")
	}
	routes := []form{
		{"RDS", func(r *adscript.Run, n int) { open(r, "l", wholeTable(n, 0)) },
			func(n, i int) adscript.Response { return adscript.Push(fmt.Sprint(i), wholeTable(n, i)) }},
		{"VHDS", func(r *adscript.Run, n int) { giveHosts(r, "l", "rc", meshHosts("rc/", n, 0)...) },
			func(n, i int) adscript.Response { return adscript.Push(fmt.Sprint(i), meshHosts("rc/", n, i)[i%n]) }},
	}
	clusters := []form{{"CDS", func(r *adscript.Run, n int) {
		r.AwaitAck(r.Send(adscript.Push("0", meshClusters(n, 0)...)))
	}, func(n, i int) adscript.Response { return adscript.Push(fmt.Sprint(i), meshClusters(n, i)[i%n]) }}}
	listeners := []form{{"LDS", func(r *adscript.Run, n int) {
		open(r, "l", wholeTable(10, 0)) // whose table the others have too
		r.AwaitAck(r.Send(adscript.Push("0", meshListeners(n, 0)...)))
	},
		func(n, i int) adscript.Response { return adscript.Push(fmt.Sprint(i), meshListeners(n, i)[i%n]) }}}
	endpoints := []form{
		{"EDS", func(r *adscript.Run, n int) { give(r, adscript.EDSCluster("c", "", never), hosts(n)...) },
			func(n, i int) adscript.Response {
				return adscript.Push(fmt.Sprint(i), adscript.Assignment("c", changedHosts(n, i)...))
			}},
		{"LEDS", func(r *adscript.Run, n int) {
			giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(n)...)
		},
			func(n, i int) adscript.Response {
				before, now := changedHosts(n, i-1), changedHosts(n, i)
				return adscript.PushMembers(fmt.Sprint(i), "c/1", now[0]).Removing(adscript.Collection("c/1") +
					before[0])
			}},
	}
	table := "| entries | form | bytes per change | CPU of Envoy per change | CPU of Envoy for all at the start |\n" +
		"|---|---|---|---|---|\n"
	for _, c := range []struct {
		forms []form
		sizes []int
	}{
		{routes, []int{10, 100, 1000, 5000}}, {endpoints, []int{16, 32, 64, 100, 1000, 5000}},
		{clusters, []int{100, 1000}}, {listeners, []int{10, 100}},
	} {
		for _, n := range c.sizes {
			table += compare(t, c.forms, n)
		}
	}
	t.Log("\n" + table)
}

// compare measures forms in turns and returns their lines of the table.
func compare(t *testing.T, forms []form, n int) (lines string) {
	t.Helper()
	runs := make([]*adscript.Run, len(forms))
	filled, before := make([]time.Duration, len(forms)), make([]time.Duration, len(forms))
	for f := range forms {
		r := adscript.Start(t, adscript.Options{})
		start(r)
		idle := r.CPU()
		forms[f].fill(r, n)
		r.Settle()
		filled[f] = r.CPU() - idle
		r.AwaitAck(r.Send(forms[f].change(n, 1))) // what only the first change costs
		r.Settle()
		runs[f], before[f] = r, r.CPU()
	}
	bytes := make([]int, len(forms))
	for i := range updates {
		for f, r := range runs {
			push := forms[f].change(n, i+2)
			size, err := push.Bytes()
			require.NoError(t, err)
			bytes[f] += size
			r.AwaitAck(r.Send(push))
		}
	}
	for f, r := range runs {
		r.Settle()
		spent := (r.CPU() - before[f]) / updates
		lines += fmt.Sprintf("| %d | %s | %d | %.2f ms | %.1f ms |\n", n, forms[f].name, bytes[f]/updates,
			spent.Seconds()*1000, filled[f].Seconds()*1000)
	}
	return lines
}

func wholeTable(n, i int) *routev3.RouteConfiguration {
	return adscript.RouteTable("rc", meshHosts("", n, i)...)
}

// meshHosts are virtual hosts as sidecars have them, one for each of n services; the i-th change
// has touched one.
func meshHosts(prefix string, n, i int) []*routev3.VirtualHost {
	var all []*routev3.VirtualHost
	for s := range n {
		host := fmt.Sprintf("service-%d.default.svc.cluster.local", s)
		v := adscript.VirtualHost(prefix+host+":80", "outbound|80||"+host,
			host, fmt.Sprintf("service-%d", s), fmt.Sprintf("service-%d.default.svc", s),
			fmt.Sprintf("service-%d.default", s),
			fmt.Sprintf("10.96.%d.%d", s/256, s%256))
		action := v.GetRoutes()[0].GetRoute()
		action.Timeout = durationpb.New(0)
		action.RetryPolicy = &routev3.RetryPolicy{
			RetryOn: "connect-failure,refused-stream,unavailable,cancelled", NumRetries: wrapperspb.UInt32(2),
		}
		if i > 0 && s == i%n {
			action.Timeout = durationpb.New(time.Duration(i) * time.Second)
		}
		all = append(all, v)
	}
	return all
}

// meshClusters are n clusters; the i-th change has touched one.
func meshClusters(n, i int) (all []proto.Message) {
	for s := range n {
		c := adscript.StaticCluster(fmt.Sprintf("outbound|80||service-%d.default.svc.cluster.local", s), "127.0.0.1:80")
		if i > 0 && s == i%n {
			c.ConnectTimeout = durationpb.New(time.Duration(i) * time.Second)
		}
		all = append(all, c)
	}
	return all
}

// meshListeners are n listeners with their routes in them; the i-th change has touched one.
func meshListeners(n, i int) (all []proto.Message) {
	for p := range n {
		l := adscript.HTTPListener(fmt.Sprint("l", p), "rc", never)
		if i > 0 && p == i%n {
			l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(uint32(32768 + i))
		}
		all = append(all, l)
	}
	return all
}

// changedHosts are n hosts of which the i-th change has replaced the first by another.
func changedHosts(n, i int) []string {
	all := hosts(n)
	if i > 0 {
		all[0] = fmt.Sprintf("127.0.1.1:%d", 2000+i)
	}
	return all
}
