package status

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

const (
	// maxProbeBody is what the kubelet reads of an answer.
	maxProbeBody = 10 << 10
	maxRedirects = 10
)

// prober asks the application what the kubelet asks the agent: the kubelet has no certificate, so
// it could not ask a Pod that takes mutual TLS alone.
type prober struct {
	probes   map[string]settings.Probe
	host     string // where the application is
	port     uint16 // the agent's own
	dialer   net.Dialer
	client   http.Client
	log      *slog.Logger
	failures *metrics.Counter

	mu     sync.Mutex
	failed map[string]bool // by path: a failure is logged when it begins
}

// probeSource are the addresses that probes come from. Rules of redirection let them pass to the
// application.
var probeSource = map[bool]string{true: "127.0.0.6", false: "::6"}

func newProber(o Options) *prober {
	p := &prober{
		probes:   o.Settings.Probes,
		host:     o.Pod.String(),
		port:     o.Settings.Port,
		dialer:   net.Dialer{LocalAddr: sourceOf(o.Pod)},
		log:      o.Log,
		failures: o.Registry.Counter("lateen_agent_app_probe_failures_total", "Probes that the application failed."),
		failed:   map[string]bool{},
	}
	if o.Settings.ProbeLocalhost {
		p.host = "localhost"
	}
	p.client = http.Client{
		Transport: &http.Transport{
			DialContext: p.dialer.DialContext,
			// As the kubelet: a probe says whether the application answers, not who it is.
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      !o.Settings.ProbeKeepAlive,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: follow,
	}
	return p
}

func sourceOf(pod netip.Addr) net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(probeSource[pod.Is4()])}
}

// follow follows redirects on the same host. One to elsewhere is a success, as for the kubelet.
func follow(next *http.Request, before []*http.Request) error {
	if next.URL.Hostname() != before[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(before) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

func (p *prober) serve(w http.ResponseWriter, r *http.Request) {
	probe, known := p.probes[r.URL.Path]
	if !known {
		http.Error(w, "no container has this probe", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), probe.Timeout)
	defer cancel()
	var err error
	switch {
	case probe.HTTP != nil:
		err = p.http(ctx, w, r, probe.HTTP)
	case probe.TCP != nil:
		err = p.tcp(ctx, probe.TCP)
	default:
		err = p.grpc(ctx, r, probe.GRPC)
	}
	p.note(r.URL.Path, err)
	if err != nil && !errors.As(err, new(answered)) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// answered is a status code with which the application has failed its probe, and which was passed
// on.
type answered int

func (a answered) Error() string { return fmt.Sprintf("the application answers %d", int(a)) }

// note counts failures, and logs where they begin and end.
func (p *prober) note(path string, err error) {
	if err != nil {
		p.failures.Inc()
	}
	p.mu.Lock()
	before := p.failed[path]
	p.failed[path] = err != nil
	p.mu.Unlock()
	switch {
	case err != nil && !before:
		p.log.Warn("the application fails a probe", "path", path, "err", err)
	case err == nil && before:
		p.log.Info("the application passes a probe again", "path", path)
	}
}

func (p *prober) address(port uint16) string {
	return net.JoinHostPort(p.host, strconv.Itoa(int(port)))
}

func (p *prober) http(ctx context.Context, w http.ResponseWriter, r *http.Request, probe *settings.HTTPProbe) error {
	scheme := "http"
	if probe.TLS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+p.address(probe.Port)+probe.Path, nil)
	if err != nil {
		return err
	}
	request.Header = r.Header.Clone()
	for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade"} {
		request.Header.Del(name) // of the kubelet's own connection
	}
	request.Host = p.hostOf(r.Host, probe.Port)
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return nil // a redirect without its target would not be one
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(response.Body, maxProbeBody))
	if response.StatusCode >= 400 {
		return answered(response.StatusCode)
	}
	return nil
}

// hostOf is the host that the application sees: that of the kubelet's request, with its own port in
// place of the agent's.
func (p *prober) hostOf(host string, port uint16) string {
	name, own, err := net.SplitHostPort(host)
	if err != nil || own != strconv.Itoa(int(p.port)) {
		return host
	}
	return net.JoinHostPort(name, strconv.Itoa(int(port)))
}

func (p *prober) tcp(ctx context.Context, probe *settings.TCPProbe) error {
	conn, err := p.dialer.DialContext(ctx, "tcp", p.address(probe.Port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p *prober) grpc(ctx context.Context, r *http.Request, probe *settings.GRPCProbe) error {
	conn, err := grpc.NewClient("passthrough:///"+p.address(probe.Port),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return p.dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithUserAgent(r.UserAgent()),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxProbeBody)),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
	)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: probe.Service}, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("service %q is %s", probe.Service, s)
	}
	return nil
}
