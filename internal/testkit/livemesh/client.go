package livemesh

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/sample"
)

// Answer is what came back.
type Answer struct {
	// Status is 0 when there was no answer; then Err says why.
	Status int
	Err    error
	Header http.Header
	Body   string
	// Echoed is what the sample server saw, if it was the one that answered.
	Echoed sample.Echoed
	// Took is how long it took.
	Took time.Duration
	// TLS is nil for an answer in plaintext.
	TLS *tls.ConnectionState
}

// OK tells that the request was answered with 200.
func (a Answer) OK() bool { return a.Status == http.StatusOK }

// String is short, for messages of tests.
func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d from %q (%s): %.300s", a.Status, a.Echoed.Hostname, a.Echoed.Version, a.Body)
}

// Client calls as a workload does, or from outside through a gateway.
type Client struct {
	m    *Mesh
	http *http.Client
	// base stands in front of paths: a gateway's address.
	base string
}

// Option changes a request before it is sent.
type Option func(*http.Request)

// Header sets a header.
func Header(name, value string) Option { return func(r *http.Request) { r.Header.Set(name, value) } }

// Host sets the Host header, and leaves alone where the request is sent.
func Host(name string) Option { return func(r *http.Request) { r.Host = name } }

// Method sets the method.
func Method(name string) Option { return func(r *http.Request) { r.Method = name } }

// RawPath has the request line name a path as it is, also one that Go would not send.
func RawPath(path string) Option { return func(r *http.Request) { r.URL.Opaque = path } }

// Client is one that calls through the sidecar of a workload: "deployment", "namespace/deployment",
// or a pod's name.
func (m *Mesh) Client(workload string) *Client {
	m.t.Helper()
	proxy := &url.URL{Scheme: "http", Host: netip.AddrPortFrom(m.Pod(workload).Outbound, local.HTTPProxyPort).String()}
	return m.client(http.ProxyURL(proxy), "")
}

// Gateway is a client that calls a gateway workload at a port.
func (m *Mesh) Gateway(workload string, port uint16) *Client {
	m.t.Helper()
	return m.client(nil, "http://"+netip.AddrPortFrom(m.Pod(workload).Pod, port).String())
}

// ClearHTTP2 is Gateway with HTTP/2 without TLS, from the first byte on.
func (m *Mesh) ClearHTTP2(workload string, port uint16) *Client {
	m.t.Helper()
	c := m.Gateway(workload, port)
	transport := c.http.Transport.(*http.Transport) //nolint:forcetypeassert // client makes it
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	return c
}

// SecureGateway is a client that connects to a gateway workload at a port, with TLS:
// "https://host/path" names the server that it wants.
func (m *Mesh) SecureGateway(workload string, port uint16, config *tls.Config) *Client {
	m.t.Helper()
	address := netip.AddrPortFrom(m.Pod(workload).Pod, port).String()
	transport := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	c := &Client{m: m, http: &http.Client{
		Transport: transport, Timeout: patience / 2,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	m.closeAtEnd(c)
	return c
}

func (m *Mesh) client(proxy func(*http.Request) (*url.URL, error), base string) *Client {
	transport := &http.Transport{Proxy: proxy, MaxIdleConnsPerHost: 64, DisableCompression: true}
	c := &Client{m: m, base: base, http: &http.Client{
		Transport: transport, Timeout: patience / 2,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	m.closeAtEnd(c)
	return c
}

// Close implements io.Closer. The mesh closes its clients by itself.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Get asks for a URL, or for a path behind a gateway.
func (c *Client) Get(target string, options ...Option) Answer {
	c.m.t.Helper()
	return c.Do(context.Background(), target, options...)
}

// Do is Get until the context ends. It may be called from any goroutine.
func (c *Client) Do(ctx context.Context, target string, options ...Option) Answer {
	if strings.HasPrefix(target, "/") {
		target = c.base + target
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Answer{Err: err}
	}
	for _, o := range options {
		o(req)
	}
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return Answer{Err: err, Took: time.Since(start)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	a := Answer{
		Status: resp.StatusCode,
		Err:    err,
		Header: resp.Header,
		Body:   string(body),
		Took:   time.Since(start),
		TLS:    resp.TLS,
	}
	if bytes.HasPrefix(body, []byte("{")) {
		_ = json.Unmarshal(body, &a.Echoed) // an answer that is not the echo's has none
	}
	return a
}

// Tally sends a request n times and counts the answers by what key says of them.
func (c *Client) Tally(n int, target string, key func(Answer) string, options ...Option) map[string]int {
	c.m.t.Helper()
	counts := map[string]int{}
	for range n {
		counts[key(c.Get(target, options...))]++
	}
	return counts
}

// ByVersion counts answers by the version that answered, or by the status of a failure.
func ByVersion(a Answer) string {
	if !a.OK() {
		return fmt.Sprint(a.Status)
	}
	return a.Echoed.Version
}

// ByPod counts answers by the pod that answered, or by the status of a failure.
func ByPod(a Answer) string {
	if !a.OK() {
		return fmt.Sprint(a.Status)
	}
	return a.Echoed.Hostname
}

// Dial opens a connection as a workload does to a TCP service: to its own outbound address, at the
// service's port.
func (m *Mesh) Dial(workload string, port uint16) net.Conn {
	m.t.Helper()
	conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(m.Pod(workload).Outbound, port).String(), patience)
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(m.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// DialPod opens a connection to a port of a workload, past all other proxies.
func (m *Mesh) DialPod(workload string, port uint16) net.Conn {
	m.t.Helper()
	conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(m.Pod(workload).Pod, port).String(), patience)
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(m.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}
