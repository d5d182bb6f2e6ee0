package sidecar_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// trust are a server's and a client's configuration that fit.
func trust(t testing.TB) (server, client *tls.Config) {
	authority := certs.NewAuthority(t, "mesh")
	return &tls.Config{Certificates: []tls.Certificate{authority.Issue(t,
		"istiod").TLS(t)}}, &tls.Config{RootCAs: authority.Pool(), ServerName: "istiod"}
}

func TestOverTLSWithAToken(t *testing.T) {
	server, client := trust(t)
	s := startScript(t, grpc.Creds(credentials.NewTLS(server)))
	f := newFleet(t, sidecar.Options{
		Targets: []string{s.address}, Backoff: quick, Log: logTo(t), TLS: client,
		Token: func(id sidecar.Identity) (string, error) { return "of " + id.Pod, nil },
	})
	f.Start(web, sidecar.Faults{})
	for range 2 {
		c := <-s.streams
		require.Equal(t, []string{"Bearer of web-0"}, c.header.Get("authorization"))
		require.Contains(t, told(<-c.requests), "CDS")
		// Larger than a record, a frame and what is read at a time.
		c.says("1", &clusterv3.Cluster{Name: "large", AltStatName: strings.Repeat("x", 1<<20)})
		for told(<-c.requests) != "CDS ack 1" {
		}
		c.end <- status.Error(codes.Unavailable, "again")
	}
	await(t, f, "a return", func(s sidecar.Stats) bool { return s.Reconnects == 1 })
	require.Zero(t, f.Stats().Malformed)
}

func TestWhoIsNotTrustedIsNotTalkedTo(t *testing.T) {
	server, _ := trust(t)
	s := startScript(t, grpc.Creds(credentials.NewTLS(server)))
	_, other := trust(t)
	f := newFleet(t, sidecar.Options{Targets: []string{s.address}, Backoff: quick, TLS: other})
	f.Start(web, sidecar.Faults{})
	await(t, f, "failures", func(s sidecar.Stats) bool { return s.Failures > 2 })
	require.Zero(t, f.Stats().Connected)
}

func TestWhoHasNoTokenTriesAgain(t *testing.T) {
	s := startScript(t)
	f := newFleet(t, sidecar.Options{
		Targets: []string{s.address}, Backoff: quick,
		Token: func(sidecar.Identity) (string, error) { return "", errors.New("none") },
	})
	f.Start(web, sidecar.Faults{})
	await(t, f, "failures", func(s sidecar.Stats) bool { return s.Failures > 2 })
}

// A request larger than the server's window goes out as the window opens, and what waits costs next
// to nothing.
func TestRequestsLargerThanTheWindow(t *testing.T) {
	const clusters, n = 5000, 5
	s := startScript(t, grpc.MaxRecvMsgSize(1<<24), grpc.InitialWindowSize(1<<16), grpc.InitialConnWindowSize(1<<16))
	f := newFleet(t, sidecar.Options{Targets: []string{s.address}, Backoff: quick, Loops: 1, Log: logTo(t)})
	var all []any
	for i := range clusters {
		all = append(all, eds(fmt.Sprintf("outbound|80||service-%d.a-namespace-with-a-long-name.svc.cluster.local", i)))
	}
	for range n {
		f.Start(web, sidecar.Faults{})
	}
	for range n {
		c := <-s.streams
		c.hears("CDS")
		c.says("1", all...)
		subscribe := <-c.requests
		require.Len(t, subscribe.GetResourceNamesSubscribe(), clusters)
		c.hears("CDS ack 1")
		c.end <- status.Error(codes.Unavailable, "again")
	}
	for range n {
		c := <-s.streams
		returned := <-c.requests
		require.Len(t, returned.GetInitialResourceVersions(), clusters)
		require.Len(t, (<-c.requests).GetResourceNamesSubscribe(), clusters)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	_, err := sidecar.New(sidecar.Options{})
	require.ErrorContains(t, err, "no address")
	_, err = sidecar.New(sidecar.Options{Targets: []string{"nowhere"}})
	require.ErrorContains(t, err, "nowhere")
	_, err = sidecar.New(sidecar.Options{Targets: []string{"127.0.0.1:1"},
		Mesh: sidecar.Mesh{Metadata: map[string]any{"X": make(chan int)}}})
	require.ErrorContains(t, err, "metadata")
}

func TestWhoCannotConnectWaitsLonger(t *testing.T) {
	f := newFleet(t,
		sidecar.Options{Targets: []string{held(t)},
			Backoff: sidecar.Backoff{Base: time.Millisecond, Max: 4 * time.Millisecond}})
	f.Start(web, sidecar.Faults{})
	await(t, f, "failures", func(s sidecar.Stats) bool { return s.Failures > 10 })
}
