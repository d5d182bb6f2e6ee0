package envoyfacts

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

const (
	meteredHost  = "reviews.default.svc.cluster.local"
	meteredPeer  = "productpage-v1;default;productpage;v1;Kubernetes"
	meteredRound = 5000 // requests
	meteredConns = 8
)

// BenchmarkStandardMetrics measures Envoy's processor time for a proxied request, without and with
// Istio's standard metrics, at the caller and, in plaintext, at the workload that is called. Both
// take turns, so that they have the same machine: -benchtime=10x are ten rounds.
func BenchmarkStandardMetrics(b *testing.B) {
	b.Setenv(proxystats.PeerVariable, meteredPeer)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	b.Cleanup(backend.Close)
	for name, make := range map[string]func(netip.AddrPort, *listener.Common) *listenerv3.Listener{
		"caller": meteredCaller, "called": meteredCalled,
	} {
		b.Run(name, func(b *testing.B) {
			off := startMetered(b, backend, func(at netip.AddrPort) *listenerv3.Listener { return make(at, nil) })
			on := startMetered(b, backend, func(at netip.AddrPort) *listenerv3.Listener {
				return make(at, &listener.Common{Metrics: listener.Metrics{Standard: true}})
			})
			for _, m := range []*metered{off, on} {
				m.round(b) // connections open, statistics come to be
			}
			off.spent, on.spent = 0, 0
			for b.Loop() {
				off.round(b)
				on.round(b)
			}
			each := float64(b.N*meteredRound) * float64(time.Microsecond)
			b.ReportMetric(float64(off.spent)/each, "off-us/request")
			b.ReportMetric(float64(on.spent)/each, "on-us/request")
			b.ReportMetric(float64(on.spent)/float64(off.spent), "on/off")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func meteredCaller(at netip.AddrPort, common *listener.Common) *listenerv3.Listener {
	return listener.HTTP(listener.HTTPInput{
		Name: "l", Bind: at.Addr().String(), Port: at.Port(), BindToPort: true, RouteTable: "rc", Common: common,
	})
}

func meteredCalled(at netip.AddrPort, common *listener.Common) *listenerv3.Listener {
	return listener.Inbound(listener.InboundInput{
		InboundPort: listener.InboundPort{
			Name: "l", Port: at.Port(), Protocol: model.HTTP, Cluster: pb.OutboundCluster(meteredHost, 80, ""),
		},
		Bind: at.Addr().String(), Common: common,
	})
}

// metered is an Envoy whose requests are measured.
type metered struct {
	run     *adscript.Run
	address string
	spent   time.Duration
}

func startMetered(
	b *testing.B, backend *httptest.Server, make func(netip.AddrPort) *listenerv3.Listener,
) *metered {
	b.Helper()
	reserved, err := port.Reserve()
	require.NoError(b, err)
	b.Cleanup(reserved.Release)
	r := adscript.Start(b, adscript.Options{})
	start(r)
	cluster := meteredCluster(backend)
	r.Send(adscript.Push("1", cluster))
	r.Send(adscript.Push("1", make(netip.MustParseAddrPort(reserved.Address))))
	r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.VirtualHost("v", cluster.GetName(), "*"))))
	r.Settle()
	return &metered{run: r, address: reserved.Address}
}

// meteredCluster has an endpoint that takes mutual TLS of the mesh, as it says.
func meteredCluster(backend *httptest.Server) *clusterv3.Cluster {
	c := adscript.StaticCluster(pb.OutboundCluster(meteredHost, 80, ""), backend.Listener.Addr().String())
	c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].Metadata = &corev3.Metadata{
		FilterMetadata: map[string]*structpb.Struct{
			proxystats.EndpointSpace: pb.Text(proxystats.EndpointKey, "reviews-v1;default;reviews;v1;"),
			proxystats.SocketSpace:   pb.TakesMeshTLS(),
		},
	}
	return c
}

// round sends requests on some connections, and adds up Envoy's time for them.
func (m *metered) round(b *testing.B) {
	b.Helper()
	before := m.run.CPU()
	var all sync.WaitGroup
	failed := make(chan error, meteredConns)
	for range meteredConns {
		all.Go(func() { failed <- m.requests(meteredRound / meteredConns) })
	}
	all.Wait()
	for range meteredConns {
		require.NoError(b, <-failed)
	}
	m.spent += m.run.CPU() - before
}

func (m *metered) requests(n int) error {
	conn, err := net.Dial("tcp", m.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	request := strings.ReplaceAll("GET / HTTP/1.1\nHost: reviews\nUser-Agent: bench\nAccept: */*\n\n", "\n", "\r\n")
	for range n {
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
	}
	return nil
}
