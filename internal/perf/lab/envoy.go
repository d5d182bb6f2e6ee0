package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// envoy is a real Envoy as the proxy of a pod. That of a gateway listens at the pod's address,
// which is one of 127.32.0.0/16, as in lateen up. A sidecar of such a pod takes calls as an HTTP
// proxy at a second address. The sidecar of any other pod gets the configuration of one to which
// connections are redirected, without listeners: it opens no port of this machine.
type envoy struct {
	*daemon
	admin string // "http://127.0.0.1:41234"
	// proxy is where it takes HTTP calls, as an HTTP proxy.
	proxy string
}

// httpProxyPort is where sidecars of such pods take HTTP calls, on their outbound address.
const httpProxyPort = 15080

// loopbackPod returns the pod of the nth Envoy. Its third byte is another one for each run.
func loopbackPod(namespace, app string, n int) load.Pod {
	return load.Pod{
		Namespace: namespace, Name: fmt.Sprintf("%s-envoy-%d", app, n), Node: "node-a", ServiceAccount: "default",
		Address: fmt.Sprintf("127.32.%d.%d", os.Getpid()%250, 1+n), Labels: map[string]string{"app": app},
	}
}

func isLoopback(pod load.Pod) bool { return strings.HasPrefix(pod.Address, "127.") }

// outbound returns the address at which the sidecar of such a pod takes calls.
func outbound(address string) string { return strings.Replace(address, "127.32.", "127.96.", 1) }

// startEnvoy starts an Envoy that gets its configuration from a control plane, and returns when it
// has all of it. resolver is a resolv.conf for it alone; empty: that of this machine.
func (r *run) startEnvoy(ctx context.Context, xds string, pod load.Pod, resolver string) (*envoy, error) {
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	config, err := bootstrap(xds, admin, pod, false)
	if err != nil {
		return nil, err
	}
	return r.runEnvoy(ctx, envoyConfig{pod: pod, admin: admin, bootstrap: config, resolver: resolver})
}

// envoyConfig is what an Envoy is started with.
type envoyConfig struct {
	pod       load.Pod
	admin     uint16 // the port of its admin interface
	bootstrap []byte
	resolver  string // a resolv.conf for it alone, or empty
}

// runEnvoy starts an Envoy, and returns when it serves.
func (r *run) runEnvoy(ctx context.Context, c envoyConfig) (*envoy, error) {
	base := filepath.Join(r.StateDir, c.pod.Name+"-"+strconv.Itoa(int(c.admin)))
	if err := os.WriteFile(base+".json", c.bootstrap, 0o600); err != nil {
		return nil, err
	}
	argv := []string{
		r.Envoy, "--config-path", base + ".json", "--concurrency", "1", "--disable-hot-restart",
		"--log-level", "warning", "--component-log-level", "misc:error",
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = attributes()
	if c.resolver != "" {
		var err error
		if cmd, err = withResolver(argv, c.resolver); err != nil {
			return nil, err
		}
	}
	d, err := startCommand(base+".log", "envoy", cmd)
	if err != nil {
		return nil, err
	}
	e := &envoy{
		daemon: d, admin: fmt.Sprintf("http://127.0.0.1:%d", c.admin),
		proxy: net.JoinHostPort(outbound(c.pod.Address), strconv.Itoa(httpProxyPort)),
	}
	if err := e.await(ctx, r.Patience, e.ready); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

func freePort() (uint16, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return netip.MustParseAddrPort(l.Addr().String()).Port(), l.Close()
}

// ready reports whether Envoy has everything that it asked the control plane for.
func (e *envoy) ready(ctx context.Context) error {
	body, err := e.get(ctx, "/ready")
	if err == nil && !strings.HasPrefix(body, "LIVE") {
		err = fmt.Errorf("/ready: %s", strings.TrimSpace(body))
	}
	return err
}

// get returns what Envoy's admin interface answers.
func (e *envoy) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.admin+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return string(body), err
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// counter returns the sum of the counters whose names contain a text.
func (e *envoy) counter(ctx context.Context, filter string) (sum float64, err error) {
	body, err := e.get(ctx, "/stats?type=Counters&filter="+filter)
	for line := range strings.Lines(body) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum, err
}

// bootstrap returns the configuration with which an Envoy starts: where the control plane is, and
// who asks it. metrics has it keep Istio's standard metrics.
func bootstrap(xds string, admin uint16, pod load.Pod, metrics bool) ([]byte, error) {
	at, err := netip.ParseAddrPort(xds)
	if err != nil {
		return nil, fmt.Errorf("the control plane's address %q: %w", xds, err)
	}
	labels := map[string]any{}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	app := pod.Labels["app"]
	here := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), admin)
	metadata := map[string]any{
		"NAME": pod.Name, "NAMESPACE": pod.Namespace, "LABELS": labels, "SERVICE_ACCOUNT": pod.ServiceAccount,
		"CLUSTER_ID": "Kubernetes", "WORKLOAD_NAME": app, "INSTANCE_IPS": pod.Address, "NODE_NAME": pod.Node,
		"ISTIO_VERSION": istionames.Version, "INTERCEPTION_MODE": "REDIRECT",
	}
	if metrics {
		metadata[proxystats.MetadataKey] = proxystats.MetadataValue
	}
	overADS := map[string]any{"ads": map[string]any{}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
	dynamic := map[string]any{
		"ads_config": map[string]any{
			"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
			"grpc_services": []any{map[string]any{"envoy_grpc": map[string]any{"cluster_name": "xds-grpc"}}},
		},
		"cds_config": overADS,
	}
	kind := "sidecar"
	switch {
	case pod.Router:
		kind, metadata["INTERCEPTION_MODE"] = "router", "NONE"
		dynamic["lds_config"] = overADS
	case isLoopback(pod):
		metadata["INTERCEPTION_MODE"], metadata["HTTP_PROXY_PORT"] = "NONE", strconv.Itoa(httpProxyPort)
		dynamic["lds_config"] = overADS
	}
	return json.Marshal(map[string]any{
		"node": map[string]any{
			"id":       fmt.Sprintf("%s~%s~%s.%s~%[4]s.svc.cluster.local", kind, pod.Address, pod.Name, pod.Namespace),
			"cluster":  app + "." + pod.Namespace,
			"metadata": metadata,
		},
		"admin":             map[string]any{"address": socket(here)},
		"dynamic_resources": dynamic,
		"static_resources": map[string]any{"clusters": []any{map[string]any{
			"name": "xds-grpc", "type": "STATIC", "connect_timeout": "1s",
			"load_assignment": map[string]any{"cluster_name": "xds-grpc", "endpoints": []any{map[string]any{
				"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": socket(at)}}},
			}}},
			"typed_extension_protocol_options": map[string]any{
				http2: map[string]any{
					"@type":                "type.googleapis.com/" + http2,
					"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
				},
			},
		}}},
	})
}

// http2 is the type of the options by which Envoy speaks HTTP/2 to the control plane.
const http2 = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

func socket(a netip.AddrPort) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": a.Addr().String(), "port_value": a.Port()}}
}
