package sidecar_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// script is a control plane whose words a test puts into its mouth.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t       testing.TB
	address string
	streams chan *talk
	refusal chan error // for the next streams, one each
}

// talk is one stream of it.
type talk struct {
	t        testing.TB
	requests chan *discoveryv3.DeltaDiscoveryRequest
	stream   discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	end      chan error
	header   metadata.MD
}

func startScript(t testing.TB, o ...grpc.ServerOption) *script {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &script{t: t, address: l.Addr().String(), streams: make(chan *talk, 16), refusal: make(chan error, 16)}
	server := grpc.NewServer(o...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	return s
}

func (s *script) DeltaAggregatedResources(
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	select {
	case err := <-s.refusal:
		return err
	default:
	}
	header, _ := metadata.FromIncomingContext(stream.Context())
	c := &talk{t: s.t, requests: make(chan *discoveryv3.DeltaDiscoveryRequest, 1024), stream: stream,
		end: make(chan error, 1), header: header}
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case c.requests <- r:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	s.streams <- c
	select {
	case err := <-c.end:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// told is a request in a line: "CDS", "EDS +a,b", "CDS ack 1", "RDS +r init r=1".
func told(r *discoveryv3.DeltaDiscoveryRequest) string {
	short := r.GetTypeUrl()
	for t := range sidecar.NumTypes {
		if t.URL() == r.GetTypeUrl() {
			short = t.String()
		}
	}
	words := []string{short}
	names := func(sign string, names []string) {
		if len(names) > 0 {
			slices.Sort(names)
			words = append(words, sign+strings.Join(names, ","))
		}
	}
	names("+", r.GetResourceNamesSubscribe())
	names("-", r.GetResourceNamesUnsubscribe())
	var versions []string
	for name, v := range r.GetInitialResourceVersions() {
		versions = append(versions, name+"="+v)
	}
	names("init ", versions)
	switch {
	case r.GetErrorDetail() != nil:
		words = append(words, "nack", r.GetResponseNonce())
	case r.GetResponseNonce() != "":
		words = append(words, "ack", r.GetResponseNonce())
	}
	return strings.Join(words, " ")
}

// hears waits for requests.
func (c *talk) hears(want ...string) {
	c.t.Helper()
	for _, w := range want {
		select {
		case r := <-c.requests:
			require.Equal(c.t, w, told(r))
		case <-c.stream.Context().Done():
			c.t.Fatalf("the stream ended, wanted %q", w)
		case <-time.After(patience):
			c.t.Fatalf("waited in vain for %q", w)
		}
	}
}

// says sends resources of one type; strings are names to remove, the version of all is the nonce.
func (c *talk) says(nonce string, resources ...any) {
	c.t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{Nonce: nonce}
	for _, x := range resources {
		switch x := x.(type) {
		case sidecar.Type:
			r.TypeUrl = x.URL()
		case string:
			r.RemovedResources = append(r.RemovedResources, x)
		case proto.Message:
			body, err := anypb.New(x)
			require.NoError(c.t, err)
			r.TypeUrl = body.GetTypeUrl()
			name := ""
			switch x := x.(type) {
			case *endpointv3.ClusterLoadAssignment:
				name = x.GetClusterName()
			case *endpointv3.LbEndpoint:
				name = "xdstp://a/c/m"
			case interface{ GetName() string }:
				name = x.GetName()
			}
			r.Resources = append(r.Resources, &discoveryv3.Resource{Name: name, Version: nonce, Resource: body})
		}
	}
	require.NoError(c.t, c.stream.Send(r))
}

func eds(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}}
}

func hosts(name string) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name}
}

func collection(cluster, name string) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: cluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
			LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{LedsCollectionName: name},
		},
	}}}
}

func listener(t testing.TB, name, table string) *listenerv3.Listener {
	config, err := anypb.New(
		&hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: table}},
		},
	)
	require.NoError(t, err)
	return &listenerv3.Listener{Name: name, FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config},
	}}}}}
}

func head(name string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, Vhds: &routev3.Vhds{}}
}

var web = sidecar.Identity{
	Namespace:      "shop",
	Pod:            "web-0",
	Address:        netip.MustParseAddr("10.0.0.7"),
	ServiceAccount: "web",
	Labels:         map[string]string{"app": "web"},
	Locality:       "r/z/s",
}

// quick is a backoff that does not wait.
var quick = sidecar.Backoff{Base: 1, Max: 1}

// TestMembersOfCollectionsAreTold: what comes, and by its name what goes, though it is not held.
func TestMembersOfCollectionsAreTold(t *testing.T) {
	s := startScript(t)
	told := make(chan sidecar.Arrival, 10)
	newFleet(t, sidecar.Options{
		Targets: []string{s.address}, Backoff: quick, Log: logTo(t), Arrived: func(a sidecar.Arrival) { told <- a },
		Classify: func(r sidecar.Resource) sidecar.Mark {
			if r.TypeURL == sidecar.Collection.URL() {
				return sidecar.Mark(len(r.Body))
			}
			return 0
		},
		Collected: func(assignment string, members []sidecar.Mark) sidecar.Mark {
			return sidecar.Mark(100*len(assignment) + len(members))
		},
	}).Start(web, sidecar.Faults{})
	c := <-s.streams
	c.hears("CDS")
	c.says("c1", eds("a"))
	c.hears("EDS +a", "CDS ack c1")
	c.says("e1", collection("a", "xdstp://a/c/*"))
	c.hears("LEDS +xdstp://a/c/*", "LDS", "EDS ack e1")
	c.says("g1", &endpointv3.LbEndpoint{HealthStatus: 1}, "another")
	c.hears("LEDS ack g1")
	c.says("g2", sidecar.Collection, "xdstp://a/c/m")
	c.hears("LEDS ack g2")
	c.says("e2", collection("a", "xdstp://a/d/*"))
	c.hears("LEDS +xdstp://a/d/* -xdstp://a/c/*", "EDS ack e2")
	c.says("g3", sidecar.Collection, "xdstp://a/d/*")
	c.hears("LEDS ack g3")
	require.Len(t, told, 4)
	for _, want := range []string{
		"2 false", "101 false", "2 true", "100 false", // a member, the first answer, a removal, another's first answer
	} {
		a := <-told
		require.Equal(t, want, fmt.Sprint(a.Mark, " ", a.Removed))
	}
}

// TestSyncWaitsForMembers: a sidecar that has everything but the members of a collection has no
// endpoints yet, so what is removed before they come is never removed from it.
func TestSyncWaitsForMembers(t *testing.T) {
	s := startScript(t)
	f := newFleet(t, sidecar.Options{Targets: []string{s.address}, Backoff: quick, Log: logTo(t)})
	one := f.Start(web, sidecar.Faults{})
	c := <-s.streams
	c.hears("CDS")
	c.says("c1", eds("a"))
	c.hears("EDS +a", "CDS ack c1")
	c.says("e1", collection("a", "xdstp://a/c/*"))
	c.hears("LEDS +xdstp://a/c/*", "LDS", "EDS ack e1")
	c.says("l1", sidecar.Listener)
	c.hears("LDS ack l1")
	require.False(t, one.IsSynced())
	c.says("g1", sidecar.Collection, "xdstp://a/c/*") // there are none, which is an answer
	c.hears("LEDS ack g1")
	await(t, f, "sync", allSynced)

	c.says("e2", collection("a", "xdstp://a/d/*"))
	c.hears("LEDS +xdstp://a/d/* -xdstp://a/c/*", "EDS ack e2")
	await(t, f, "the wait for d", func(s sidecar.Stats) bool { return s.Synced == 0 })
	c.says("e3", hosts("a")) // a list asks for nothing more
	c.hears("LEDS -xdstp://a/d/*", "EDS ack e3")
	await(t, f, "sync", allSynced)
}

func TestASidecarAsksAsEnvoyDoes(t *testing.T) {
	s := startScript(t)
	f := newFleet(t, sidecar.Options{Targets: []string{s.address}, Backoff: quick, Log: logTo(t)})
	one := f.Start(web, sidecar.Faults{})
	c := <-s.streams
	first := <-c.requests
	require.Equal(t, "CDS", told(first))
	require.Equal(t, "sidecar~10.0.0.7~web-0.shop~shop.svc.cluster.local", first.GetNode().GetId())
	require.Equal(t, "envoy", first.GetNode().GetUserAgentName())
	require.Equal(t, "web.shop", first.GetNode().GetCluster())
	require.Equal(t, "z", first.GetNode().GetLocality().GetZone())
	require.Equal(t, "web", first.GetNode().GetMetadata().GetFields()["SERVICE_ACCOUNT"].GetStringValue())
	require.Equal(t, "web",
		first.GetNode().GetMetadata().GetFields()["LABELS"].GetStructValue().GetFields()["app"].GetStringValue())

	c.says("c1", eds("a"), eds("b"), &clusterv3.Cluster{Name: "static"})
	c.hears("EDS +a,b", "CDS ack c1")
	c.says("e1", hosts("a"))
	c.hears("EDS ack e1") // b is not there, so listeners wait
	c.says("e2", collection("b", "xdstp://a/c/*"))
	c.hears("LEDS +xdstp://a/c/*", "LDS", "EDS ack e2")
	c.says("g1", &endpointv3.LbEndpoint{})
	c.hears("LEDS ack g1")
	c.says("l1", listener(t, "l", "r"), listener(t, "m", "r"))
	c.hears("RDS +r", "LDS ack l1")
	require.False(t, one.IsSynced())
	c.says("r1", head("r"))
	c.hears("VHDS", "RDS ack r1")
	require.False(t, one.IsSynced())
	c.says("v1", &routev3.VirtualHost{Name: "r/v"}, &routev3.VirtualHost{Name: "r/w"})
	c.hears("VHDS ack v1")
	await(t, f, "sync", allSynced)

	c.says("c2", eds("d"), "a")
	c.hears("EDS +d -a", "CDS ack c2")
	await(t, f, "the wait for d", func(s sidecar.Stats) bool { return s.Synced == 0 })
	c.says("e3", sidecar.Endpoint, "d") // there is none, which is an answer
	c.hears("EDS ack e3")
	await(t, f, "sync", allSynced)
	c.says("l2", sidecar.Listener, "m")
	c.hears("LDS ack l2") // l wants the table still
	c.says("v2", sidecar.VirtualHost, "r/v")
	c.hears("VHDS ack v2")
	c.says("x1", &routev3.ScopedRouteConfiguration{Name: "unknown"})
	c.says("v3", &routev3.VirtualHost{Name: "r/x"})
	c.hears("VHDS ack v3")
	await(t, f, "a count of what is unknown", func(s sidecar.Stats) bool { return s.Unknown == 1 })
	require.Equal(t, map[string]string{"r/w": "v1", "r/x": "v3"}, one.Resources(sidecar.VirtualHost))

	c.end <- status.Error(codes.Unavailable, "moving")
	c = <-s.streams
	again := <-c.requests
	require.NotNil(t, again.GetNode())
	require.Equal(t, "CDS init b=c1,d=c2,static=c1", told(again))
	c.hears("EDS +b,d init b=e2", "LEDS +xdstp://a/c/*", "LDS init l=l1", "RDS +r init r=r1", "VHDS init r/w=v1,r/x=v3")
	c.says("1", sidecar.Cluster)
	c.says("2", sidecar.Listener)
	c.hears("CDS ack 1", "LDS ack 2")
	require.False(t, one.IsSynced(), "the virtual hosts are not answered")
	c.says("3", sidecar.VirtualHost)
	c.hears("VHDS ack 3")
	await(t, f, "sync", allSynced)
}

func TestRefusalsAreCounted(t *testing.T) {
	s := startScript(t)
	for range 3 {
		s.refusal <- status.Error(codes.ResourceExhausted, "too many")
	}
	f := newFleet(t, sidecar.Options{Targets: []string{s.address}, Backoff: quick, Log: logTo(t)})
	f.Start(web, sidecar.Faults{})
	c := <-s.streams
	c.hears("CDS")
	await(t, f, "counts", func(s sidecar.Stats) bool { return s.Refused == 3 && s.Attempts == 4 })
	c.says("1", eds("a"))
	c.hears("EDS +a", "CDS ack 1")
	require.NoError(t,
		c.stream.Send(&discoveryv3.DeltaDiscoveryResponse{Nonce: "2", TypeUrl: sidecar.Endpoint.URL(),
			Resources: []*discoveryv3.Resource{
				{Name: "a", Resource: &anypb.Any{TypeUrl: sidecar.Endpoint.URL(), Value: []byte{0x0a, 9}}},
			}}))
	c.hears("EDS nack 2")
	await(t, f, "a count of refusals", func(s sidecar.Stats) bool { return s.Types[sidecar.Endpoint].Nacks == 1 })
	c.says("3", &clusterv3.Cluster{Name: "b"})
	c.hears("CDS ack 3")
}

func TestSidecarsRefuseAndDelayAsTold(t *testing.T) {
	s := startScript(t)
	open := func(m sidecar.Faults) *talk {
		f := newFleet(t, sidecar.Options{Targets: []string{s.address}, Backoff: quick, Log: logTo(t), Seed: 7})
		f.Start(web, m)
		c := <-s.streams
		c.hears("CDS")
		return c
	}
	t.Run("refuses", func(t *testing.T) {
		c := open(sidecar.Faults{NackShare: 0.5})
		var said []string
		for i := range 20 {
			c.says(fmt.Sprint(i), &clusterv3.Cluster{Name: "c"})
			said = append(said, told(<-c.requests))
		}
		all := strings.Join(said, " ")
		require.Contains(t, all, " nack ")
		require.Contains(t, all, " ack ")
	})
	t.Run("takes its time", func(t *testing.T) {
		c := open(sidecar.Faults{AckDelay: 1e6})
		c.says("1", eds("a"))
		c.hears("EDS +a", "CDS ack 1")
	})
	t.Run("floods", func(t *testing.T) {
		c := open(sidecar.Faults{FloodRate: 1000})
		c.says("1", eds("a"))
		for subscriptions := 0; subscriptions < 20; {
			if told(<-c.requests) == "EDS +a" {
				subscriptions++
			}
		}
	})
	t.Run("reads slowly", func(t *testing.T) {
		c := open(sidecar.Faults{ReadRate: 100_000})
		c.says("1", &clusterv3.Cluster{Name: "c", AltStatName: strings.Repeat("x", 20_000)})
		c.hears("LDS", "CDS ack 1")
	})
	t.Run("goes deaf", func(t *testing.T) {
		c := open(sidecar.Faults{StopsReading: true})
		c.says("1")
		c.hears() // of no type
		c.says("2", sidecar.Cluster)
		c.hears("LDS", "CDS ack 2")
		c.says("3", sidecar.Listener)
		c.hears("LDS ack 3")
		c.says("4", sidecar.Cluster)
		require.Empty(t, c.requests)
	})
}
