package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// Options are what a Checker needs.
type Options struct {
	Probe settings.Readiness
	// Address is the proxy's first one, at which the workload is asked unless the probe names a
	// host.
	Address netip.Addr
	// Ready reports whether the proxy could serve the workload. Nothing is told before.
	Ready func() bool
	// Changed is told that the workload has become healthy, or why it is not any more; the first
	// result always.
	Changed func(healthy bool, why string)
}

// maxOutput is how many bytes of what a workload says about itself are kept.
const maxOutput = 1 << 10

// Checker probes a workload.
type Checker struct {
	o      Options
	dialer net.Dialer
	client http.Client

	told    bool // Changed was called
	healthy bool // with this
	inARow  int  // results that say something else than healthy
}

// New returns a Checker.
func New(o Options) *Checker {
	c := &Checker{o: o}
	if o.Probe.Host == "" { // redirection lets this source pass to the workload
		source := "127.0.0.6"
		if o.Address.Is6() {
			source = "::6"
		}
		c.dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		c.o.Probe.Host = o.Address.String()
	}
	c.client = http.Client{
		Transport: &http.Transport{
			DialContext: c.dialer.DialContext,
			// As the kubelet: a probe says whether the workload answers, not who it is.
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Run probes until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	next := time.NewTimer(c.o.Probe.InitialDelay)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if !c.told && !c.o.Ready() { // nobody waits for what cannot be called yet
			next.Reset(min(c.o.Probe.Period, time.Second))
			continue
		}
		err := c.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		c.count(err)
		next.Reset(c.o.Probe.Period)
	}
}

// count takes a result, and tells what has changed.
func (c *Checker) count(err error) {
	if c.told && c.healthy == (err == nil) {
		c.inARow = 0
		return
	}
	wanted := c.o.Probe.Failures
	if err == nil {
		wanted = c.o.Probe.Successes
	}
	if !c.told && c.healthy != (err == nil) { // before anything is told, both kinds count from 0
		c.healthy, c.inARow = err == nil, 0
	}
	if c.inARow++; c.inARow < wanted {
		return
	}
	c.told, c.healthy, c.inARow = true, err == nil, 0
	why := ""
	if err != nil {
		why = err.Error()
	}
	c.o.Changed(c.healthy, why)
}

func (c *Checker) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Probe.Timeout)
	defer cancel()
	switch p := c.o.Probe; {
	case p.HTTP != nil:
		return c.http(ctx, *p.HTTP)
	case p.TCP != nil:
		conn, err := c.dialer.DialContext(ctx, "tcp", c.address(p.TCP.Port))
		if err != nil {
			return err
		}
		return conn.Close()
	case p.GRPC != nil:
		return c.grpc(ctx, *p.GRPC)
	default:
		return run(ctx, p.Exec)
	}
}

func (c *Checker) address(port uint16) string {
	return net.JoinHostPort(c.o.Probe.Host, strconv.Itoa(int(port)))
}

func (c *Checker) http(ctx context.Context, p settings.HTTPProbe) error {
	scheme := "http"
	if p.TLS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+c.address(p.Port)+p.Path, nil)
	if err != nil {
		return err
	}
	for name, values := range c.o.Probe.Headers {
		request.Header[name] = values
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		said, _ := io.ReadAll(io.LimitReader(response.Body, maxOutput))
		return fmt.Errorf("GET %s answers %d: %s", p.Path, response.StatusCode, strings.TrimSpace(string(said)))
	}
	return nil
}

func (c *Checker) grpc(ctx context.Context, p settings.GRPCProbe) error {
	conn, err := grpc.NewClient("passthrough:///"+c.address(p.Port),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: p.Service})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("service %q is %s", p.Service, s)
	}
	return nil
}

// run runs a program, which says by its exit code whether the workload is healthy.
func run(ctx context.Context, command []string) error {
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.WaitDelay = time.Second
	said := &firstBytes{}
	program.Stdout, program.Stderr = said, said
	if err := program.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", command[0], err, strings.TrimSpace(said.text.String()))
	}
	return nil
}

// firstBytes keeps the first maxOutput bytes that are written.
type firstBytes struct{ text strings.Builder }

// Write implements io.Writer.
func (f *firstBytes) Write(p []byte) (int, error) {
	f.text.Write(p[:min(len(p), maxOutput-f.text.Len())])
	return len(p), nil
}
