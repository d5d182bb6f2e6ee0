package xdsproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// TestRealEnvoyStartsWithoutControlPlane runs a real Envoy and Lateen's own server. The control
// plane goes, Envoy is killed and starts again, and serves; then the control plane comes back with
// something new.
func TestRealEnvoyStartsWithoutControlPlane(t *testing.T) {
	binary := realenvoy.Binary(t)
	for _, api := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(api, func(t *testing.T) {
			plane := startPlane(t, "127.0.0.1:0", "one")
			r := startProxy(t, plane.address, withCache(filepath.Join(t.TempDir(), "cache")))
			e := startEnvoy(t, binary, r.socket, api)
			e.await("one")
			// Envoy may serve before its last ACK is here, without which nothing is kept.
			require.Eventually(t, func() bool { return r.proxy.Accepted() && r.proxy.cache.hasAll() }, patience,
				time.Millisecond)

			plane.stop()
			e.kill()
			e = startEnvoy(t, binary, r.socket, api)
			e.await("one")

			startPlane(t, plane.address, "two")
			e.await("two")
			require.Positive(t, r.proxy.Stats().UpstreamFailures)
		})
	}
}

// hasAll reports whether all that went to Envoy has been accepted, routes too.
func (c *cache) hasAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, ok := c.typeOf(typeurl.Route)
	routes := 0
	for _, e := range c.index {
		if ok && e.of == of {
			routes++
		}
	}
	return len(c.staged) == 0 && routes > 0
}

// plane is Lateen's server with a configuration of one listener, whose virtual host sends to a
// cluster.
type plane struct {
	address string
	hub     *fanout.Hub
	state   resource.State
	stop    func()
}

// Connect implements serve.Registrar.
func (p *plane) Connect(context.Context, *serve.Node, serve.Identity) (*fanout.Conn, error) {
	return p.hub.Register(1, p.state, resource.Overlay{}), nil
}

func startPlane(t *testing.T, address, says string) *plane {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	metrics := observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	p := &plane{
		address: l.Addr().String(), hub: fanout.NewHub(fanout.Options{Throttle: 1, Metrics: metrics, Now: time.Now}),
	}
	p.state = configuration(t, says)
	server := serve.New(serve.Options{
		Registrar: p, Pushes: p.hub, Differ: resource.NewDiffer(64), Metrics: metrics,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Hold: time.Millisecond,
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		server.Stop(ctx)
		require.NoError(t, <-served)
	}
	t.Cleanup(p.stop)
	return p
}

func configuration(t *testing.T, says string) resource.State {
	t.Helper()
	encode := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		return b
	}
	store := resource.NewStore()
	one := func(name string, m proto.Message) *resource.Set { return store.Build(resource.New(name, encode(m))) }
	host := adscript.AnsweringHost("", says, "a.test")
	hosts := store.Build(resource.NewVirtualHost("80", "a", encode(host), resource.Refs{}))
	table := resource.NewRouteTable("80", encode(&routev3.RouteConfiguration{Name: "80"}), hosts)
	return resource.NewState(1).
		With(resource.Cluster, one("c", adscript.EDSCluster("c", "c", 0))).
		With(resource.Endpoint, one("c", &endpointv3.ClusterLoadAssignment{ClusterName: "c"})).
		With(resource.Listener, one("l", adscript.HTTPListener("l", "80", 0))).
		With(resource.Route, store.Build(table))
}

// envoyProcess is a real Envoy.
type envoyProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string
	done chan struct{}
}

func startEnvoy(t *testing.T, binary, socket, api string) *envoyProcess {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`{
  "node": {"id": %q, "cluster": "a.default", "metadata": {"NAMESPACE": "default"}},
  "admin": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": 0}}},
  "dynamicResources": {
    "cdsConfig": {"ads": {}, "resourceApiVersion": "V3", "initialFetchTimeout": "0s"},
    "ldsConfig": {"ads": {}, "resourceApiVersion": "V3", "initialFetchTimeout": "0s"},
    "adsConfig": {"apiType": %q, "transportApiVersion": "V3", "setNodeOnFirstMessageOnly": true,
      "grpcServices": [{"envoyGrpc": {"clusterName": "xds-grpc"}}]}},
  "staticResources": {"clusters": [{"name": "xds-grpc", "type": "STATIC",
    "typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
      "explicitHttpConfig": {"http2ProtocolOptions": {}}}},
    "loadAssignment": {"clusterName": "xds-grpc", "endpoints": [{"lbEndpoints": [
      {"endpoint": {"address": {"pipe": {"path": %q}}}}]}]}}]}}`, nodeID, api, socket)
	file := filepath.Join(dir, "bootstrap.json")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	e := &envoyProcess{t: t, dir: dir, done: make(chan struct{})}
	e.cmd = exec.Command(binary, "-c", file, "--admin-address-path", filepath.Join(dir, "admin"),
		"--concurrency", "1", "--disable-hot-restart", "-l", "error")
	e.cmd.Stderr = os.Stderr
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, e.cmd.Start())
	go func() { defer close(e.done); _ = e.cmd.Wait() }()
	t.Cleanup(e.kill)
	return e
}

func (e *envoyProcess) kill() {
	_ = e.cmd.Process.Kill() // fails only if it has exited
	<-e.done
}

// await waits until the listener answers so.
func (e *envoyProcess) await(want string) {
	e.t.Helper()
	var got string
	var err error
	require.Eventually(e.t, func() bool {
		got, err = e.get()
		return got == want
	}, patience, 20*time.Millisecond, "want %q", want)
	require.NoError(e.t, err)
}

func (e *envoyProcess) get() (string, error) {
	admin, err := os.ReadFile(filepath.Join(e.dir, "admin"))
	if err != nil {
		return "", err
	}
	text, err := fetch("http://"+string(admin)+"/listeners?format=json", "")
	if err != nil {
		return "", err
	}
	var listeners struct {
		Statuses []struct {
			Local struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(text), &listeners); err != nil {
		return "", err
	}
	if len(listeners.Statuses) != 1 {
		return "", errors.New("there is no listener")
	}
	return fetch(fmt.Sprintf("http://127.0.0.1:%d/", listeners.Statuses[0].Local.Socket.Port), "a.test")
}

func fetch(url, host string) (string, error) {
	q, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	q.Host, q.Close = host, true
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return strings.TrimSpace(string(body)), err
}
