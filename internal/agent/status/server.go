package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/lateen-mesh/lateen/internal/agent/meshstats"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// Limits of the server. Who asks more gets 503 at once; the kubelet and Prometheus ask again.
const (
	maxScrapes = 2
	maxProbes  = 32
	maxReady   = 32
	// maxConnections bounds what idle ones take: some 10 KB each, for idleTimeout at most.
	maxConnections = 512

	headerTimeout  = 5 * time.Second
	idleTimeout    = 30 * time.Second
	maxHeaderBytes = 16 << 10
)

// Options are what a Server needs.
type Options struct {
	Settings settings.Status
	Pod      netip.Addr // where the application is
	// EnvoyAdmin is the Unix socket of Envoy's admin interface.
	EnvoyAdmin string
	// Check returns an error unless the process at the other end of a connection of this machine is
	// another one than Envoy, which routes make call whatever they lead to.
	Check func(from, to netip.AddrPort) error
	// Refused is told about callers that may not ask.
	Refused   func(error)
	Self      meshstats.Self // whose statistics Envoy's are
	Readiness *Readiness
	Registry  *metrics.Registry
	Drain     func(context.Context) error // POST /drain
	Quit      func()                      // POST /quitquitquit
	Log       *slog.Logger
}

// Server serves the status port.
type Server struct {
	o        Options
	handler  http.Handler
	wasReady atomic.Bool
}

// New returns a server, and registers its metrics.
func New(o Options) *Server {
	s := &Server{o: o}
	scraper := newScraper(o)
	prober := newProber(o)
	mux := http.NewServeMux()
	mux.Handle("/healthz/ready", limited(maxReady, http.HandlerFunc(s.ready)))
	scrapes := limited(maxScrapes, http.HandlerFunc(scraper.serve))
	envoy := limited(maxScrapes, http.HandlerFunc(scraper.serveEnvoy))
	if o.Settings.MetricsOnly {
		scrapes, envoy = loopback(scrapes), loopback(envoy) // Envoy passes on what 15090 is asked
	}
	mux.Handle("/metrics", scrapes)
	mux.Handle("/stats/prometheus", scrapes)
	mux.Handle(settings.EnvoyStatsPath, envoy)
	probes := limited(maxProbes, http.HandlerFunc(prober.serve))
	mux.Handle("/app-health/", probes)
	mux.Handle("/app-lifecycle/", s.callers(o.Settings.Kubelet, probes))
	mux.Handle("/drain", s.callers(nil, posted(s.drain)))
	mux.Handle("/quitquitquit", s.callers(nil, posted(s.quit)))
	s.handler = mux
	return s
}

// Run serves on a listener until the context ends.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      maxScrapeTime + headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("status port: %w", err)
	}
	return nil
}

// Listen opens the status port on all addresses: the kubelet and Prometheus ask from outside.
func Listen(port uint16) (net.Listener, error) {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		return nil, fmt.Errorf("status port: %w", err)
	}
	return l, nil
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	err := s.o.Readiness.Check(r.Context())
	if err != nil {
		s.o.Log.Warn("the proxy is not ready", "err", err)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
	if s.wasReady.Swap(err == nil) != (err == nil) && err == nil {
		s.o.Log.Info("the proxy is ready")
	}
}

func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	s.o.Log.Info("draining, as POST /drain says")
	if err := s.o.Drain(r.Context()); err != nil {
		s.o.Log.Warn("Envoy does not drain", "err", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("OK"))
}

func (s *Server) quit(w http.ResponseWriter, _ *http.Request) {
	s.o.Log.Info("ending, as POST /quitquitquit says")
	_, _ = w.Write([]byte("OK"))
	_ = http.NewResponseController(w).Flush() // this server ends as well
	s.o.Quit()
}

// limited answers 503 while n requests are being answered.
func limited(n int, next http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		}
	})
}

func posted(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "want POST", http.StatusMethodNotAllowed)
			return
		}
		next(w, r)
	})
}
