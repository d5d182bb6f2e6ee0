package health

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// told is one call of Changed.
type told struct {
	healthy bool
	why     string
}

func checker(p settings.Readiness, all *[]told) *Checker {
	return New(Options{
		Probe: p, Address: netip.MustParseAddr("127.0.0.1"), Ready: func() bool { return true },
		Changed: func(healthy bool, why string) { *all = append(*all, told{healthy, why}) },
	})
}

// TestChangesAreTold after as many results in a row as the thresholds say; the first result always.
func TestChangesAreTold(t *testing.T) {
	for _, c := range []struct {
		successes, failures int
		results, tells      string
	}{
		{1, 1, "+", "+"}, {1, 1, "-", "-"}, {1, 1, "+++--++", "+..-.+."}, {2, 1, "++", ".+"}, {1, 2, "--", ".-"},
		{2, 2, "+-+-++", ".....+"}, {2, 3, "++--+---+", ".+.....-."}, {3, 1, "-+++", "-..+"}, {2, 2, "-+", ".."},
	} {
		var all []told
		probe := checker(settings.Readiness{Successes: c.successes, Failures: c.failures}, &all)
		tells := ""
		for _, r := range c.results {
			before := len(all)
			if r == '+' {
				probe.count(nil)
			} else {
				probe.count(errors.New("why"))
			}
			switch {
			case len(all) == before:
				tells += "."
			case all[before].healthy:
				tells += "+"
			default:
				require.Equal(t, "why", all[before].why)
				tells += "-"
			}
		}
		require.Equal(t, c.tells, tells, "%+v", c)
	}
}

func port(address string) uint16 { return netip.MustParseAddrPort(address).Port() }

// TestWorkloadsAreProbed in each way.
func TestWorkloadsAreProbed(t *testing.T) {
	var asked *http.Request
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		if r.URL.Path == "/bad" {
			http.Error(w, "no database", http.StatusServiceUnavailable)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(func() { plain.Close(); secure.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, serving := grpc.NewServer(), grpchealth.NewServer()
	serving.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, serving)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)

	web := func(s *httptest.Server, path string) settings.Readiness {
		return settings.Readiness{
			HTTP:    &settings.HTTPProbe{Path: path, Port: port(s.Listener.Addr().String()), TLS: s == secure},
			Headers: http.Header{"X-A": {"b"}, "Host": {"shop.test"}},
		}
	}
	tcp := func(address string) settings.Readiness {
		return settings.Readiness{TCP: &settings.TCPProbe{Port: port(address)}}
	}
	call := func(service string) settings.Readiness {
		return settings.Readiness{GRPC: &settings.GRPCProbe{Port: port(l.Addr().String()), Service: service}}
	}
	for _, c := range []struct {
		name  string
		probe settings.Readiness
		says  string
	}{
		{"http", web(plain, "/ok"), ""},
		{"https", web(secure, "/ok"), ""},
		{"http fails", web(plain, "/bad"), "GET /bad answers 503: no database"},
		{"tcp", tcp(plain.Listener.Addr().String()), ""},
		{"tcp fails", tcp(closed.Addr().String()), "connection refused"},
		{"grpc", call(""), ""},
		{"grpc fails", call("down"), `service "down" is NOT_SERVING`},
		{"grpc knows no such service", call("none"), "unknown service"},
		{"exec", settings.Readiness{Exec: []string{"/bin/sh", "-c", "exit 0"}}, ""},
		{"exec fails", settings.Readiness{Exec: []string{"/bin/sh", "-c", "echo no disk >&2; exit 3"}},
			"exit status 3: no disk"},
		{"exec of nothing", settings.Readiness{Exec: []string{"/no/such/program"}}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.probe.Timeout = 30 * time.Second
			err := checker(c.probe, nil).probe(t.Context())
			if c.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
	require.Equal(t, "b", asked.Header.Get("X-A"))
	require.Equal(t, "shop.test", asked.Host)
	require.True(
		t,
		strings.HasPrefix(asked.RemoteAddr, "127.0.0.6:"),
		"%s is redirected to the proxy",
		asked.RemoteAddr,
	)
}

// TestALongOutputIsCut and a program that does not end is ended.
func TestALongOutputIsCut(t *testing.T) {
	err := run(t.Context(), []string{"/bin/sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; exit 1"})
	require.ErrorContains(t, err, "xxx")
	require.Less(t, len(err.Error()), 2*maxOutput)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.Error(t, run(ctx, []string{"/bin/sh", "-c", "while :; do :; done"}))
}

// TestNothingIsToldBeforeTheProxyServes.
func TestNothingIsToldBeforeTheProxyServes(t *testing.T) {
	var ready atomic.Bool
	results, asked := make(chan told, 10), make(chan struct{})
	c := New(Options{
		Probe: settings.Readiness{
			Period:    time.Millisecond,
			Timeout:   time.Minute,
			Successes: 1,
			Failures:  1,
			Exec:      []string{os.Args[0], "-test.run=^$"},
		},
		Address: netip.MustParseAddr("::1"),
		Ready: func() bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return ready.Load()
		},
		Changed: func(healthy bool, why string) { results <- told{healthy, why} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	for range 3 {
		<-asked
	}
	require.Empty(t, results)
	ready.Store(true)
	require.Equal(t, told{healthy: true}, <-results)
	cancel()
	<-ended
}
