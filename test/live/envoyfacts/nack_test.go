package envoyfacts

import (
	"syscall"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestNackMayBePartial_1_7 is why nothing is taken as known of what a refused response says, and
// how the culprit is found (P15, blame.go).
func TestNackMayBePartial_1_7(t *testing.T) {
	fact(t, "clusters: the good ones are applied, and the removals; the bad ones are listed",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			r.AwaitAck(r.Send(adscript.Push("1", adscript.StaticCluster("old"))))
			bad := adscript.Push("2", adscript.StaticCluster("g1"), unknownSocket("bad"), adscript.StaticCluster("g2"),
				unknownSocket("worse"))
			nack := r.AwaitNack(r.Send(bad.Removing("old")))
			require.Regexp(t, `^Error adding/updating cluster\(s\) bad: .*, worse: `, nack.Error.GetMessage())
			clusters := r.ActiveClusters()
			require.Contains(t, clusters, "g1")
			require.Contains(t, clusters, "g2")
			require.NotContains(t, clusters, "bad")
			require.NotContains(t, clusters, "old")

			r.Reconnect()
			require.Equal(t, map[string]string{"anchor": "0", "old": "1"},
				r.AwaitOpen(adscript.Clusters).InitialVersions,
				"it reports what it does not have, and not what it has")
		})
	fact(t, "listeners: likewise", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitAck(r.Send(adscript.Push("1", adscript.HTTPListener("old", "rc", never))))
		bad := adscript.Push("2", adscript.HTTPListener("g1", "rc", never), unknownFilter("bad"),
			adscript.HTTPListener("g2", "rc", never))
		nack := r.AwaitNack(r.Send(bad.Removing("old")))
		require.Regexp(t, `^Error adding/updating listener\(s\) bad: `, nack.Error.GetMessage())
		listeners := r.Config().WarmingListeners
		require.Contains(t, listeners, "g1")
		require.Contains(t, listeners, "g2")
		require.NotContains(t, listeners, "bad")
		require.NotContains(t, listeners, "old")

		r.Reconnect()
		require.Equal(t, map[string]string{"old": "1"}, r.AwaitOpen(adscript.Listeners).InitialVersions)
	})
	fact(t, "routes: some of the good tables are applied, none is reported, the bad one is named in free text",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			refused, reported := adscript.Push("2", twice("bad")), map[string]string{"bad": "1"}
			open(r, "bad", adscript.RouteTable("bad", adscript.AnsweringHost("a", "first", "*")))
			for _, name := range several {
				open(r, name, adscript.RouteTable(name, adscript.AnsweringHost("a", "first", "*")))
				refused.Resources = append(refused.Resources, adscript.Push("2",
					adscript.RouteTable(name, adscript.AnsweringHost("a", "second", "*"))).Resources...)
				reported[name] = "1"
			}
			nack := r.AwaitNack(r.Send(refused))
			require.Equal(t, "Only a single wildcard domain is permitted in route bad", nack.Error.GetMessage())
			now := r.Config().Routes
			for _, name := range several {
				require.Contains(t, []string{"1", "2"}, now[name].Version,
					"which ones is chance, and differs from process to process")
			}
			require.Equal(t, "1", now["bad"].Version)
			require.Equal(t, ok("first"), r.Get("bad", "a.test", "/"))

			r.Reconnect()
			require.Equal(t, reported, r.AwaitOpen(adscript.Routes).InitialVersions)
		})
	fact(t, "endpoints: likewise, and the bad one is not named", func(t *testing.T, r *adscript.Run) {
		start(r)
		refused, reported := adscript.Push("2", adscript.Assignment("bad", "no-address")), map[string]string{"bad": "1"}
		give(r, adscript.EDSCluster("bad", "", never), hosts(1)...)
		for _, name := range several {
			give(r, adscript.EDSCluster(name, "", never), hosts(1)...)
			refused.Resources = append(refused.Resources,
				adscript.Push("2", adscript.Assignment(name, hosts(2)...)).Resources...)
			reported[name] = "1"
		}
		nack := r.AwaitNack(r.Send(refused))
		require.Contains(t, nack.Error.GetMessage(), "no-address")
		require.NotContains(t, nack.Error.GetMessage(), "bad")
		for _, name := range several {
			require.Contains(t, [][]string{hosts(1), hosts(2)}, r.Hosts(name))
		}
		require.Equal(t, hosts(1), r.Hosts("bad"))

		r.Reconnect()
		require.Equal(t, reported, r.AwaitOpen(adscript.Endpoints).InitialVersions)
	})
	fact(t, "a good resource accepted later is reported again", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitNack(r.Send(adscript.Push("2", adscript.StaticCluster("g1"), unknownSocket("bad"))))
		r.AwaitAck(r.Send(adscript.Push("3", adscript.StaticCluster("g1"))))
		r.Reconnect()
		require.Equal(t, map[string]string{"anchor": "0", "g1": "3"}, r.AwaitOpen(adscript.Clusters).InitialVersions)
	})
	for _, whole := range []struct {
		name string
		bad  adscript.Response
	}{
		{"a field that breaks its rule", adscript.Push("2", invalid("bad"))},
		{"a body that cannot be decoded", adscript.PushNamed(adscript.Clusters, "2",
			adscript.Resource{Name: "bad", Raw: []byte("no protobuf")})},
		{"a name that stands twice", adscript.Push("2", adscript.StaticCluster("bad"), adscript.StaticCluster("bad"))},
		{"a name that is added and removed", adscript.Push("2", adscript.StaticCluster("bad")).Removing("bad")},
	} {
		fact(t, whole.name+" refuses the whole response", func(t *testing.T, r *adscript.Run) {
			start(r)
			r.AwaitAck(r.Send(adscript.Push("1", adscript.StaticCluster("old"))))
			resp := adscript.Push("2", adscript.StaticCluster("good"))
			resp.Resources = append(resp.Resources, whole.bad.Resources...)
			r.AwaitNack(r.Send(resp.Removing(append(whole.bad.Removed, "old")...)))
			clusters := r.ActiveClusters()
			require.NotContains(t, clusters, "good")
			require.NotContains(t, clusters, "bad")
			require.Contains(t, clusters, "old")
		})
	}
	fact(t, "and so it is with listeners, routes and endpoints, where what nobody asked for is not even read",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("c", "", never), hosts(1)...)
			give(r, adscript.EDSCluster("bad", "", never), hosts(1)...)
			open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "first", "*")))
			open(r, "bad", adscript.RouteTable("bad", adscript.AnsweringHost("a", "first", "*")))
			bad := adscript.Resource{Name: "bad", Version: "2", Raw: []byte("no protobuf")}
			for _, resp := range []adscript.Response{
				adscript.Push("2", adscript.Assignment("c", hosts(2)...)),
				adscript.Push("2", adscript.HTTPListener("l2", "rc", never)),
				adscript.Push("2", adscript.RouteTable("rc", adscript.AnsweringHost("a", "second", "*"))),
			} {
				resp.Resources = append(resp.Resources, bad)
				r.AwaitNack(r.Send(resp))
			}
			require.Equal(t, hosts(1), r.Hosts("c"))
			require.Equal(t, "1", r.Config().Routes["rc"].Version)
			require.NotContains(t, r.Config().Listeners, "l2")
			require.Equal(t, ok("first"), r.Get("l", "a.test", "/"))

			bad.Name = "unwatched"
			r.AwaitAck(r.Send(adscript.PushNamed(adscript.Endpoints, "3", bad)))
		})
}

// TestInvalidMemberAbortsEnvoy_1_8 is why every endpoint passes a gate before it is encoded
// (translate/endpoint).
func TestInvalidMemberAbortsEnvoy_1_8(t *testing.T) {
	for name, member := range map[string]adscript.Resource{
		"an address that is none": {Body: adscript.Member("no-address")},
		"no address":              {Raw: []byte{0x0a, 0x00}}, // LbEndpoint{endpoint: {}}
	} {
		fact(t, "a collection's member with "+name+" aborts Envoy", func(t *testing.T, r *adscript.Run) {
			start(r)
			giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(1)...)
			member.Name = adscript.Collection("c/1") + "bad"
			r.Send(adscript.PushNamed(adscript.Members, "2", member))
			state, log := r.AwaitExit()
			status, isWait := state.Sys().(syscall.WaitStatus)
			require.True(t, isWait && status.Signaled() && status.Signal() == syscall.SIGABRT, "%s\n%s", state, log)
		})
		fact(t, "an assignment's endpoint with "+name+" is refused", func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("c", "", never), hosts(1)...)
			bad := adscript.Assignment("c", "no-address")
			if member.Raw != nil {
				require.NoError(t, proto.Unmarshal(member.Raw, bad.GetEndpoints()[0].GetLbEndpoints()[0]))
			}
			r.AwaitNack(r.Send(adscript.Push("2", bad)))
			require.Equal(t, hosts(1), r.Hosts("c"))
		})
	}
	fact(t, "a member that breaks a field's rule refuses the whole response", func(t *testing.T, r *adscript.Run) {
		start(r)
		giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(1)...)
		resp := adscript.PushMembers("2", "c/1", hosts(3)...)
		weightless := adscript.Member(hosts(3)[2])
		weightless.LoadBalancingWeight = wrapperspb.UInt32(0)
		resp.Resources[2].Body = weightless
		r.AwaitNack(r.Send(resp))
		require.Equal(t, hosts(1), r.Hosts("c"))
	})
	fact(t, "a refused step from a collection to a list leaves hosts that nothing updates",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(2)...)
			r.AwaitNack(r.Send(adscript.Push("2", adscript.Assignment("c", "no-address"))))
			r.AwaitUnsubscribe(adscript.Members, adscript.Collection("c/1")+"*")
			r.AwaitAck(r.Send(adscript.Removal(adscript.Members, adscript.Collection("c/1")+hosts(1)[0])))
			require.Equal(t, hosts(2), r.Hosts("c"))
			r.AwaitAck(r.Send(adscript.Push("3", adscript.Assignment("c", hosts(1)...))))
			require.Equal(t, hosts(1), r.Hosts("c"))
		})
}

// several are names of good resources beside a bad one.
var several = []string{"g1", "g2", "g3", "g4", "g5", "g6"}

// unknownSocket is a cluster that Envoy can read and refuses.
func unknownSocket(name string) *clusterv3.Cluster {
	c := adscript.StaticCluster(name)
	c.TransportSocket = &corev3.TransportSocket{Name: "unknown"}
	return c
}

// invalid is a cluster with a field that breaks its own rule (protoc-gen-validate).
func invalid(name string) *clusterv3.Cluster {
	c := adscript.StaticCluster(name)
	c.ConnectTimeout = durationpb.New(-1)
	return c
}

func unknownFilter(name string) *listenerv3.Listener {
	l := adscript.HTTPListener(name, "rc", never)
	l.FilterChains[0].Filters[0] = &listenerv3.Filter{Name: "unknown"}
	return l
}

// twice is a route table with two hosts for one domain.
func twice(name string) *routev3.RouteConfiguration {
	return adscript.RouteTable(name, adscript.AnsweringHost("a", "a", "*"), adscript.AnsweringHost("b", "b", "*"))
}
