package sidecar

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// unconnected returns n sidecars of one loop without sockets: a test passes responses to them, and
// what they send is forgotten.
func unconnected(n int) []*Sidecar {
	l := &loop{
		tables: newTables(newInterner(nil)), options: &Options{FetchTimeout: time.Hour},
		sidecars: map[*Sidecar]struct{}{}, members: members{},
	}
	all := make([]*Sidecar, n)
	for i := range all {
		s := &Sidecar{
			loop: l, identity: &Identity{Namespace: "a", Pod: fmt.Sprint("p", i)}, socket: -1, phase: open,
			in: &incoming{typ: NumTypes},
		}
		l.sidecars[s] = struct{}{}
		s.forget()
		s.begin()
		all[i] = s
	}
	return all
}

// response is a response as its fields stand in a message.
type response struct {
	typ       Type
	resources [][]byte
	removed   []string
}

func responseOf(t testing.TB, typ Type, version string, resources ...any) response {
	r := response{typ: typ}
	for _, x := range resources {
		switch x := x.(type) {
		case string:
			r.removed = append(r.removed, x)
		case proto.Message:
			body, err := anypb.New(x)
			require.NoError(t, err)
			encodedBody, err := proto.Marshal(body)
			require.NoError(t, err)
			var name string
			switch x := x.(type) {
			case *endpointv3.ClusterLoadAssignment:
				name = x.GetClusterName()
			case interface{ GetName() string }:
				name = x.GetName()
			}
			b := protowire.AppendTag(nil, resourceVersion, protowire.BytesType)
			b = protowire.AppendString(b, version)
			b = protowire.AppendTag(b, resourceBody, protowire.BytesType)
			b = protowire.AppendBytes(b, encodedBody)
			b = protowire.AppendTag(b, resourceName, protowire.BytesType)
			r.resources = append(r.resources, protowire.AppendString(b, name))
		}
	}
	return r
}

// receive passes a response to a sidecar, and takes what it wants to send.
func (s *Sidecar) receive(t testing.TB, r response) {
	field := func(number protowire.Number, v []byte) {
		require.NoError(t, s.field(number, protowire.BytesType, v))
	}
	field(responseTypeURL, []byte(r.typ.URL()))
	field(responseNonce, []byte("n"))
	for _, b := range r.resources {
		field(responseResources, b)
	}
	for _, name := range r.removed {
		field(deltaRemoved, []byte(name))
	}
	require.NoError(t, s.complete(0))
	s.out = nil
}

func edsCluster(name, service string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service},
	}
}

func routedListener(t testing.TB, name, table string) *listenerv3.Listener {
	config, err := anypb.New(&hcmv3.HttpConnectionManager{
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: table}},
	})
	require.NoError(t, err)
	return &listenerv3.Listener{Name: name, FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
	}}}}}
}

// meshOf connects sidecars of as many classes to a mesh of n services: each has one cluster that no
// other one has.
func meshOf(t testing.TB, sidecars, n int) []*Sidecar {
	all := unconnected(sidecars)
	var clusters, assignments []any
	for i := range n {
		name := fmt.Sprintf("outbound|80||s%d.a.svc.cluster.local", i)
		clusters = append(clusters, edsCluster(name, name))
		assignments = append(assignments, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
	cds, eds := responseOf(t, Cluster, "1", clusters...), responseOf(t, Endpoint, "1", assignments...)
	lds := responseOf(t, Listener, "1", routedListener(t, "l", "80"))
	rds := responseOf(t, Route, "1", &routev3.RouteConfiguration{Name: "80"})
	for i, s := range all {
		own := responseOf(t, Cluster, "1", &clusterv3.Cluster{Name: fmt.Sprint("own", i)})
		own.resources = append(own.resources, cds.resources...)
		for _, r := range []response{own, eds, lds, rds} {
			s.receive(t, r)
		}
		require.True(t, s.IsSynced())
	}
	return all
}

// changeCost returns how many allocations a new service and its removal make at one of many
// sidecars, and how often a whole table was walked.
func changeCost(t testing.TB, services int) (allocations float64, walks int) {
	const sidecars, changes = 20, 50
	all := meshOf(t, sidecars, services)
	var script []response
	for i := range changes {
		name := fmt.Sprintf("outbound|80||new%d.a.svc.cluster.local", i)
		script = append(script, responseOf(t, Cluster, "2", edsCluster(name, name)),
			responseOf(t, Endpoint, "2", &endpointv3.ClusterLoadAssignment{ClusterName: name}),
			responseOf(t, Cluster, "2", name))
	}
	before, at := all[0].loop.walks, 0
	allocations = testing.AllocsPerRun(changes-1, func() {
		for _, s := range all {
			for _, r := range script[at : at+3] {
				s.receive(t, r)
			}
		}
		at += 3
	})
	return allocations / sidecars, all[0].loop.walks - before
}

func TestAChangeCostsTheSameWithLongTables(t *testing.T) {
	few, walks := changeCost(t, 100)
	require.Zero(t, walks)
	many, walks := changeCost(t, 3000)
	require.Zero(t, walks, "no whole table is walked for one new service")
	t.Logf("%.1f allocations with 100 services, %.1f with 3,000", few, many)
	require.InEpsilon(t, few, many, 0.1)
}

// BenchmarkNewService is what a new service and its removal take at a simulated sidecar.
func BenchmarkNewService(b *testing.B) {
	for _, services := range []int{100, 3000} {
		b.Run(fmt.Sprint("services=", services), func(b *testing.B) {
			all := meshOf(b, 20, services)
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprintf("outbound|80||new%d.a.svc.cluster.local", i)
				script := []response{
					responseOf(b, Cluster, "2", edsCluster(name, name)),
					responseOf(b, Endpoint, "2", &endpointv3.ClusterLoadAssignment{ClusterName: name}),
					responseOf(b, Cluster, "2", name),
				}
				for _, s := range all {
					for _, r := range script {
						s.receive(b, r)
					}
				}
				if l := all[0].loop; l.due() {
					l.sweep(l.inUse)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all)), "ns/sidecar")
		})
	}
}

// TestCountOfMissingNamesFollowsEachResponse compares the count with what the whole tables say,
// after responses of all kinds.
func TestCountOfMissingNamesFollowsEachResponse(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := unconnected(1)[0]
		for range rapid.IntRange(1, 20).Draw(r, "responses") {
			typ := rapid.SampledFrom([]Type{Cluster, Endpoint, Listener, Route}).Draw(r, "type")
			first := rapid.IntRange(0, 80).Draw(r, "first")
			n := rapid.SampledFrom([]int{1, 2, 70}).Draw(r, "resources")
			kind := rapid.SampledFrom([]string{"own", "shared", "removed"}).Draw(r, "kind")
			var resources []any
			for i := range n {
				resources = append(resources, resourceNamed(t, typ, first+i, kind))
			}
			if rapid.Bool().Draw(r, "twice") {
				resources = append(resources, resources[0])
			}
			s.receive(t, responseOf(t, typ, rapid.SampledFrom([]string{"1", "2"}).Draw(r, "version"), resources...))
			require.EqualValues(r, s.tables[Cluster].pending(s.tables[Endpoint]), s.missing[0], "endpoints")
			require.EqualValues(r, s.tables[Listener].pending(s.tables[Route]), s.missing[1], "routes")
		}
	})
}

// resourceNamed returns a resource, or the name of one to remove. A shared one refers to a name
// that another one refers to as well.
func resourceNamed(t testing.TB, typ Type, i int, kind string) any {
	name, refers := fmt.Sprint("c", i), fmt.Sprint("c", i)
	if kind == "shared" {
		refers = fmt.Sprint("c", i/2)
	}
	switch {
	case kind == "removed":
		return name
	case typ == Cluster:
		return edsCluster(name, refers)
	case typ == Endpoint:
		return &endpointv3.ClusterLoadAssignment{ClusterName: name}
	case typ == Listener:
		return routedListener(t, name, refers)
	}
	return &routev3.RouteConfiguration{Name: name}
}
