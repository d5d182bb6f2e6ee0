package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// serve starts a status server, and returns its URL.
func serve(t *testing.T, change func(*Options)) string {
	t.Helper()
	o := Options{
		Pod:       netip.MustParseAddr("127.0.0.1"),
		Readiness: &Readiness{Stats: func(context.Context, string) (string, error) { return "", nil }},
		Registry:  &metrics.Registry{},
		Drain:     func(context.Context) error { return nil },
		Quit:      func() {},
		Check:     func(_, _ netip.AddrPort) error { return nil },
		Refused:   func(error) {},
		Log:       slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- New(o).Run(ctx, l) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return "http://" + l.Addr().String()
}

// application starts one, and returns its port.
func application(t *testing.T, handler http.HandlerFunc) uint16 {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return portOf(t, server.URL)
}

// admin starts an admin interface of Envoy, and returns its socket.
func admin(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "admin"))
	require.NoError(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}} //nolint:gosec // of a test
	server.Start()
	t.Cleanup(server.Close)
	return l.Addr().String()
}

func portOf(t *testing.T, at string) uint16 {
	u, err := url.Parse(at)
	require.NoError(t, err)
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	require.NoError(t, err)
	return uint16(port)
}

// call returns status and body.
func call(t *testing.T, method, url string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body), response.Header
}

func TestReadiness(t *testing.T) {
	at := serve(t, nil)
	code, body, _ := call(t, http.MethodGet, at+"/healthz/ready")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "no configuration has come")
	at = serve(t, func(o *Options) {
		o.Readiness.Stats = func(context.Context, string) (string, error) { return live, nil }
		o.Readiness.Accepted = func() bool { return true }
	})
	code, _, _ = call(t, http.MethodGet, at+"/healthz/ready")
	require.Equal(t, http.StatusOK, code)
}

func TestDrainAndQuitArePostsOfThisMachine(t *testing.T) {
	did := make(chan string, 2)
	at := serve(t, func(o *Options) {
		o.Drain = func(context.Context) error { did <- "drain"; return errors.New("no Envoy") }
		o.Quit = func() { did <- "quit" }
	})
	code, _, _ := call(t, http.MethodGet, at+"/quitquitquit")
	require.Equal(t, http.StatusMethodNotAllowed, code)
	require.Empty(t, did)
	code, _, _ = call(t, http.MethodPost, at+"/quitquitquit")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "quit", <-did)
	code, body, _ := call(t, http.MethodPost, at+"/drain")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, body, "no Envoy")

	for from, want := range map[string]int{
		"10.0.0.9:1": http.StatusForbidden, "[::1]:1": http.StatusOK, "[::ffff:127.0.0.1]:1": http.StatusOK,
		"pipe": http.StatusForbidden,
	} {
		require.Equal(t, want, askFrom(t, from, "/quitquitquit", nil), from)
	}
	byEnvoy := errors.New("it is Envoy")
	require.Equal(t, http.StatusForbidden, askFrom(t, "127.0.0.1:1", "/quitquitquit", byEnvoy))
	require.Equal(t, http.StatusForbidden, askFrom(t, "127.0.0.1:1", "/drain", byEnvoy))
	require.Equal(t, http.StatusForbidden, askFrom(t, "127.0.0.1:1", "/app-lifecycle/web/prestopz", byEnvoy))
}

// askFrom posts to a server as an address, and returns the code. Check fails with an error.
func askFrom(t *testing.T, from, path string, check error) int {
	t.Helper()
	refused := 0
	s := New(Options{
		Pod:      netip.MustParseAddr("127.0.0.1"),
		Registry: &metrics.Registry{},
		Settings: settings.Status{Kubelet: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}},
		Check:    func(_, _ netip.AddrPort) error { return check },
		Refused:  func(error) { refused++ },
		Drain:    func(context.Context) error { return nil },
		Quit:     func() {},
		Log:      slog.New(slog.DiscardHandler),
	})
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.RemoteAddr = from
	own := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 15020}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, own))
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	require.Equal(t, w.Code == http.StatusForbidden, refused == 1)
	return w.Code
}

// Hooks of containers are for the kubelet: a stranger who calls one makes the application end.
func TestHooksAnswerTheNodeAlone(t *testing.T) {
	const hook = "/app-lifecycle/web/prestopz"
	for from, want := range map[string]int{
		"10.0.0.1:1": http.StatusBadRequest, "[::ffff:10.0.0.1]:1": http.StatusBadRequest, // no container has it
		"127.0.0.1:1": http.StatusBadRequest,
		"10.0.0.9:1":  http.StatusForbidden, "[fd00::9]:1": http.StatusForbidden,
	} {
		require.Equal(t, want, askFrom(t, from, hook, nil), from)
		require.Equal(t, http.StatusBadRequest, askFrom(t, from, "/app-health/web/livez", nil), from)
	}
}

// An application must not have the agent ask what only the agent reaches.
func TestRedirectsOfMetricsAreNotFollowed(t *testing.T) {
	elsewhere := application(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret 1\n") })
	app := application(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("http://127.0.0.1:%d/", elsewhere), http.StatusFound)
	})
	at := serve(t, func(o *Options) { o.Settings.Scrape = []settings.ScrapeTarget{{Port: app, Path: "/m"}} })
	_, body, _ := call(t, http.MethodGet, at+"/metrics")
	require.NotContains(t, body, "secret")
	_, body, _ = call(t, http.MethodGet, at+"/metrics")
	require.Contains(t, body, "istio_agent_scrape_failures_total{type=\"application\"} 1\n")
}

func TestTooManyAtATimeAreTurnedAway(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	h := limited(1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(inside); <-leave }))
	go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	<-inside
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	close(leave)
}

func TestMetricsAreMerged(t *testing.T) {
	envoy := admin(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/stats/prometheus?usedonly", r.URL.String())
		_, _ = io.WriteString(w, "envoy_up 1\n")
	})
	app := application(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/m", r.URL.Path)
		require.Equal(t, "Prometheus/3", r.UserAgent())
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "app_up 1") // without an end of line
	})
	at := serve(t, func(o *Options) {
		target := settings.ScrapeTarget{Port: app, Path: "/m"}
		o.Settings = settings.Status{MergeEnvoy: true, Scrape: []settings.ScrapeTarget{target, target}}
		o.EnvoyAdmin = envoy
	})
	code, body, header := call(t, http.MethodGet, at+"/stats/prometheus?usedonly", "User-Agent", "Prometheus/3")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, textFormat, header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(body, "# HELP istio_agent_scrape"), body)
	require.True(t, strings.HasSuffix(body, "envoy_up 1\napp_up 1\napp_up 1\n"), body)
}

// TestStatisticsBeyondTheLimitAreCounted: an Envoy has more series of one metric than a scrape
// takes, and a line that is none of Istio's form. The other series are there, and the next scrape
// says how many lines are not.
func TestStatisticsBeyondTheLimitAreCounted(t *testing.T) {
	const series = 5000
	envoy := admin(t, func(w http.ResponseWriter, _ *http.Request) {
		const name = "envoy_istiocustom_istio_tcp_sent_bytes_total"
		_, _ = fmt.Fprintf(w, "# TYPE %s counter\n%[1]s{fields=\"unreadable\"} 1\n", name)
		for n := range series {
			_, _ = fmt.Fprintf(w, "%s{fields=\"1d F%d  \"} 1\n", name, n)
		}
	})
	at := serve(t, func(o *Options) {
		o.Settings.MergeEnvoy, o.EnvoyAdmin = true, envoy
	})
	_, body, _ := call(t, http.MethodGet, at+"/metrics")
	require.Contains(t, body, "\nlateen_agent_stats_dropped_total 0\n")
	kept := strings.Count(body, "\nistio_tcp_sent_bytes_total{")
	require.Positive(t, kept)
	require.Less(t, kept, series)
	_, body, _ = call(t, http.MethodGet, at+"/metrics")
	require.Contains(t, body, fmt.Sprintf("\nlateen_agent_stats_dropped_total %d\n", series+1-kept))
	require.Contains(t, body, "istio_agent_scrape_failures_total{type=\"envoy\"} 0\n", "the rest was taken")
}

func TestOpenMetricsEndOnce(t *testing.T) {
	app := application(t, func(w http.ResponseWriter, r *http.Request) {
		require.Contains(t, r.Header.Get("Accept"), openMetrics)
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		_, _ = io.WriteString(w, "app_up 1\n# EOF\n")
	})
	at := serve(t, func(o *Options) {
		o.Settings.Scrape = []settings.ScrapeTarget{{Port: app, Path: "/"}, {Port: app, Path: "/"}}
	})
	_, body, header := call(t, http.MethodGet, at+"/metrics", "Accept", openMetrics)
	require.Equal(t, "application/openmetrics-text; version=1.0.0; charset=utf-8", header.Get("Content-Type"))
	require.True(t, strings.HasSuffix(body, "\napp_up 1\napp_up 1\n# EOF\n"), body)
}

func TestATargetThatFailsCostsItsOwnMetricsAlone(t *testing.T) {
	hanging := make(chan struct{})
	defer close(hanging)
	slow := application(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	})
	failing := application(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	const lines = 100_000 // more than connections buffer
	good := application(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("app_up 1\n", lines))
	})
	at := serve(t, func(o *Options) {
		o.Settings.MergeEnvoy, o.EnvoyAdmin = true, "nowhere"
		for _, p := range []uint16{slow, failing, good} {
			o.Settings.Scrape = append(o.Settings.Scrape, settings.ScrapeTarget{Port: p, Path: "/"})
		}
	})
	_, _, _ = call(t, http.MethodGet, at+"/metrics", timeoutHeader, "5")
	_, body, _ := call(t, http.MethodGet, at+"/metrics", timeoutHeader, "5")
	require.Equal(t, lines, strings.Count(body, "\napp_up 1"))
	require.Contains(t, body, "istio_agent_scrape_failures_total{type=\"envoy\"} 1\n")
	require.Contains(t, body, "istio_agent_scrape_failures_total{type=\"application\"} 2\n")
}

func TestPatience(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": scrapeTime, "x": scrapeTime, "-1": scrapeTime, "NaN": scrapeTime,
		"5": 4 * time.Second, "1e9": maxScrapeTime,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(timeoutHeader, header)
		require.Equal(t, want, patience(r), header)
	}
}

func TestHalfALineIsNotCopied(t *testing.T) {
	var b strings.Builder
	torn := io.MultiReader(strings.NewReader("a 1\nb 2"), iotest.ErrReader(io.ErrUnexpectedEOF))
	require.ErrorIs(t, copyLines(&b, torn, 100), io.ErrUnexpectedEOF)
	require.Equal(t, "a 1\n", b.String())
}

func TestLinesAreCopiedWholeOrNot(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
		fails bool
	}{
		{"a 1\n\nb 2\n", 100, "a 1\nb 2\n", false},
		{"a 1\r\n# EOF\r\n", 100, "a 1\n", false},
		{"a 1\nb 2", 100, "a 1\nb 2\n", false},
		{"a 1\nb 22\n", 8, "a 1\n", true},
		{"a 1\n" + strings.Repeat("x", maxLine+1), maxTargetBytes, "a 1\n", true},
		{"", 0, "", false},
	} {
		var b strings.Builder
		err := copyLines(&b, strings.NewReader(test.text), test.limit)
		require.Equal(t, test.fails, err != nil, "%.20q: %v", test.text, err)
		require.Equal(t, test.want, b.String())
	}
}

// probe asks for a probe of the container "web".
func probe(t *testing.T, p settings.Probe, headers ...string) (int, string) {
	t.Helper()
	p.Timeout = 5 * time.Second
	at := serve(t, func(o *Options) {
		o.Settings.Port = 15020
		o.Settings.Probes = map[string]settings.Probe{"/app-health/web/livez": p}
	})
	code, body, _ := call(t, http.MethodGet, at+"/app-health/web/livez", headers...)
	return code, body
}

func TestHTTPProbes(t *testing.T) {
	app := application(t, func(w http.ResponseWriter, r *http.Request) {
		require.True(t, strings.HasPrefix(r.RemoteAddr, "127.0.0.6:"), r.RemoteAddr)
		switch r.URL.Path {
		case "/alive":
			_, _ = fmt.Fprint(w, r.URL.RawQuery, " ", r.UserAgent(), " ", r.Header.Get("X-Mine"))
		case "/dead":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, strings.Repeat("x", 20<<10))
		case "/moved":
			http.Redirect(w, r, "/alive?moved", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	})
	get := func(path string) settings.Probe {
		return settings.Probe{HTTP: &settings.HTTPProbe{Path: path, Port: app}}
	}
	code, body := probe(t, get("/alive?a=b"), "User-Agent", "kube-probe/1.36", "X-Mine", "yes")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "a=b kube-probe/1.36 yes", body)
	code, body = probe(t, get("/dead"))
	require.Equal(t, http.StatusNotFound, code)
	require.Len(t, body, maxProbeBody)
	code, _ = probe(t, get("/moved"))
	require.Equal(t, http.StatusOK, code)
	code, _ = probe(t, get("/away"))
	require.Equal(t, http.StatusOK, code)
	code, _ = probe(t, get("/loop"))
	require.Equal(t, http.StatusInternalServerError, code)
}

func TestHTTPSProbesTakeAnyCertificate(t *testing.T) {
	app := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer app.Close()
	code, _ := probe(t, settings.Probe{HTTP: &settings.HTTPProbe{Path: "/", Port: portOf(t, app.URL), TLS: true}})
	require.Equal(t, http.StatusOK, code)
}

func TestTheApplicationSeesItsOwnPort(t *testing.T) {
	p := &prober{port: 15020}
	require.Equal(t, "10.0.0.7:8080", p.hostOf("10.0.0.7:15020", 8080))
	require.Equal(t, "10.0.0.7:1", p.hostOf("10.0.0.7:1", 8080))
	require.Equal(t, "shop.test", p.hostOf("shop.test", 8080))
}

func TestTCPProbes(t *testing.T) {
	app := application(t, nil)
	code, _ := probe(t, settings.Probe{TCP: &settings.TCPProbe{Port: app}})
	require.Equal(t, http.StatusOK, code)
	code, body := probe(t, settings.Probe{TCP: &settings.TCPProbe{Port: 1}})
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, body, "connection refused")
}

func TestGRPCProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	checks, server := health.NewServer(), grpc.NewServer()
	checks.SetServingStatus("good", grpc_health_v1.HealthCheckResponse_SERVING)
	checks.SetServingStatus("bad", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	port := portOf(t, "http://"+l.Addr().String())
	for service, want := range map[string]string{
		"": "", "good": "", "bad": `service "bad" is NOT_SERVING`, "other": "unknown service",
	} {
		code, body := probe(t, settings.Probe{GRPC: &settings.GRPCProbe{Port: port, Service: service}})
		require.Equal(t, want == "", code == http.StatusOK, service)
		require.Contains(t, body, want)
	}
}

func TestAProbeEndsInTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	port := portOf(t, "http://"+l.Addr().String())
	at := serve(t, func(o *Options) {
		o.Settings.Probes = map[string]settings.Probe{
			"/app-health/web/livez":  {HTTP: &settings.HTTPProbe{Path: "/", Port: port}, Timeout: time.Millisecond},
			"/app-health/web/readyz": {GRPC: &settings.GRPCProbe{Port: port}, Timeout: time.Millisecond},
		}
	})
	for _, path := range []string{"/app-health/web/livez", "/app-health/web/readyz"} {
		code, body, _ := call(t, http.MethodGet, at+path)
		require.Equal(t, http.StatusInternalServerError, code)
		require.Contains(t, strings.ToLower(body), "deadline")
	}
}

func TestAProbeThatNobodyHas(t *testing.T) {
	code, _, _ := call(t, http.MethodGet, serve(t, nil)+"/app-health/web/startupz")
	require.Equal(t, http.StatusBadRequest, code)
}
