package xdsproxy

import (
	"os"
	"path/filepath"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// named are the names in a response.
func named(r *discoveryv3.DeltaDiscoveryResponse) (names []string) {
	for _, one := range r.GetResources() {
		names = append(names, one.GetName())
	}
	return names
}

// TestEnvoyStartsWithoutControlPlane is the whole life of the last configuration: what counts, what
// an Envoy gets that starts alone, and how it comes back.
func TestEnvoyStartsWithoutControlPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own", "cache")
	up := startControlPlane(t, "127.0.0.1:0")
	r := startProxy(t, up.address, withCache(file))
	e := r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	u := up.accept()
	pass := func(answer *discoveryv3.DeltaDiscoveryResponse, isTaken bool) {
		t.Helper()
		u.give(answer)
		e.next()
		q := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: answer.GetTypeUrl(), ResponseNonce: answer.GetNonce()}
		if !isTaken {
			q.ErrorDetail = &status.Status{Message: "no"}
		}
		e.ask(q)
		for u.next().GetResponseNonce() != answer.GetNonce() {
			continue
		}
	}
	gone := respond(t, typeurl.Cluster, "2", "a")
	gone.RemovedResources = []string{"b"}
	pass(respond(t, typeurl.Cluster, "1", "a", "b", "c"), true)
	pass(gone, true)
	pass(respond(t, typeurl.Cluster, "3", "c"), false)
	pass(respond(t, typeurl.Secret, "4", "kubernetes://secret"), true)
	pass(respond(t, typeurl.Endpoint, "5", "a", "c"), true)
	pass(respond(t, typeurl.Listener, "6", "l"), true)
	heads := respond(t, typeurl.Route, "7", "whole", "empty", "80")
	for i, name := range []string{"empty", "80"} {
		head := &routev3.RouteConfiguration{Name: name, Vhds: &routev3.Vhds{}}
		heads.Resources[1+i].Resource = packed(t, typeurl.Route, head)
	}
	pass(heads, true)
	pass(respond(t, typeurl.VirtualHost, "8", "80/x", "80/y", "81/z"), true)
	const collections = "xdstp:///envoy.config.endpoint.v3.LbEndpoint/"
	const collection = collections + "c/"
	pass(respond(t, typeurl.LbEndpoint, "9", collection+"1", collection+"2", collections+"d/1"), true)
	r.cancel()
	up.stop()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(content), "kubernetes://secret")

	accepted := make(chan struct{}, 1)
	r = startProxy(t, up.address, withCache(file), func(o *Options) { o.Accepted = func() { accepted <- struct{}{} } })
	e = r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	clusters := e.next()
	require.Equal(t, []string{"c", "a"}, named(clusters))
	require.Equal(t, "v-1", clusters.GetResources()[0].GetVersion())
	require.Equal(t, "v-2", clusters.GetResources()[1].GetVersion())
	e.ack(clusters)
	e.ask(subscribe(typeurl.Endpoint, "c", "none"))
	require.Equal(t, []string{"c"}, named(e.next()))
	e.ask(subscribe(typeurl.Secret, "kubernetes://secret"))
	require.Empty(t, named(e.next()))
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Listener})
	listeners := e.next()
	require.Equal(t, []string{"l"}, named(listeners))
	e.ack(listeners)
	receive(t, accepted)
	e.ask(subscribe(typeurl.Route, "80", "empty"))
	require.Equal(t, []string{"empty", "80"}, named(e.next()))
	hosts := e.next()
	require.Empty(t, named(hosts))
	require.Equal(t, []string{"empty/*"}, hosts.GetRemovedResources(), "a table without hosts waits for a removal")
	require.Equal(t, []string{"80/x", "80/y"}, named(e.next()))
	e.ask(subscribe(typeurl.LbEndpoint, collection+"*"))
	require.Equal(t, []string{collection + "1", collection + "2"}, named(e.next()))

	up = startControlPlane(t, up.address)
	u = up.accept()
	require.Equal(t, nodeID, u.next().GetNode().GetId())
	u.give(respond(t, typeurl.Cluster, "1", "a"))
	_, err = e.Recv()
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err))

	e = r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{
		Node: node(), TypeUrl: typeurl.Cluster, InitialResourceVersions: map[string]string{"a": "v-2", "c": "v-1"},
	})
	u = up.accept()
	require.Len(t, u.next().GetInitialResourceVersions(), 2)
	u.give(respond(t, typeurl.Cluster, "2", "d"))
	require.Equal(t, []string{"d"}, named(e.next()))
}

func TestLastConfigurationOfAnotherNodeIsDropped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	c := newTestCache(t, file)
	c.pass(respond(t, typeurl.Cluster, "1", "a"), true)
	require.NoError(t, c.close())
	other, err := openCache(CacheOptions{File: file, Node: "another", MaxBytes: 1 << 20}, c.now)
	require.NoError(t, err)
	require.True(t, other.isEmpty())
	require.NoError(t, other.close())
}

func TestStateOfTheWorldStartsWithoutControlPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	c := newTestCache(t, file)
	c.pass(respond(t, typeurl.Cluster, "1", "a", "b"), true)
	c.pass(respond(t, typeurl.Endpoint, "2", "a", "b"), true)
	require.NoError(t, c.close())
	up := startControlPlane(t, "127.0.0.1:0")
	up.stop()
	r := startProxy(t, up.address, withCache(file))
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster}))
	got, err := s.Recv()
	require.NoError(t, err)
	require.Len(t, got.GetResources(), 2)
	require.Equal(t, typeurl.Cluster, got.GetResources()[0].GetTypeUrl())
	ask := &discoveryv3.DiscoveryRequest{TypeUrl: typeurl.Cluster, ResponseNonce: got.GetNonce()}
	require.NoError(t, s.Send(ask))
	ask = &discoveryv3.DiscoveryRequest{TypeUrl: typeurl.Endpoint, ResourceNames: []string{"b"}}
	require.NoError(t, s.Send(ask))
	got, err = s.Recv()
	require.NoError(t, err)
	require.Equal(t, typeurl.Endpoint, got.GetTypeUrl(), "an acknowledgement is not answered")
	require.Len(t, got.GetResources(), 1)
}
