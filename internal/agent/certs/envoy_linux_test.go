package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// bootstrap is that of an Envoy whose one listener wants mutual TLS of the mesh.
const bootstrap = `{
  "node": {"id": "sidecar~127.0.0.1~a.shop~shop.svc.cluster.local", "cluster": "a"},
  "admin": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": 0}}},
  "staticResources": {
    "clusters": [{"name": "sds-grpc", "type": "STATIC",
      "typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicitHttpConfig": {"http2ProtocolOptions": {}}}},
      "loadAssignment": {"clusterName": "sds-grpc", "endpoints": [{"lbEndpoints": [
        {"endpoint": {"address": {"pipe": {"path": %[1]q}}}}]}]}}],
    "listeners": [{"name": "l", "address": {"socketAddress": {"address": "127.0.0.1", "portValue": 0}},
      "filterChains": [{
        "transportSocket": {"name": "tls", "typedConfig": {
          "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
          "requireClientCertificate": true,
          "commonTlsContext": {
            "tlsCertificateSdsSecretConfigs": [{"name": "default", "sdsConfig": %[2]s}],
            "combinedValidationContext": {"defaultValidationContext": {"matchTypedSubjectAltNames": [
                {"sanType": "URI", "matcher": {"prefix": "spiffe://cluster.local/"}}]},
              "validationContextSdsSecretConfig": {"name": "ROOTCA", "sdsConfig": %[2]s}}}}},
        "filters": [{"name": "http", "typedConfig": {
          "@type": "%[3]s",
          "statPrefix": "l", "routeConfig": {"virtualHosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "directResponse": {"status": 200, "body": {"inlineString": "hello"}}}]}]},
          "httpFilters": [{"name": "router", "typedConfig": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}]}}`

const httpManager = "type.googleapis.com/envoy.extensions.filters.network." +
	"http_connection_manager.v3.HttpConnectionManager"

// overSDS is where secrets come from, in a form of the API.
const overSDS = `{"resourceApiVersion": "V3", "initialFetchTimeout": "0s", "apiConfigSource": {
  "apiType": %q, "transportApiVersion": "V3", "setNodeOnFirstMessageOnly": true,
  "grpcServices": [{"envoyGrpc": {"clusterName": "sds-grpc"}}]}}`

// TestRealEnvoySpeaksMutualTLS has an Envoy with the agent's certificates, of the real CA. A client
// with a certificate of the same CA gets in. Then the CA gets another root, and nothing is
// interrupted.
func TestRealEnvoySpeaksMutualTLS(t *testing.T) {
	binary := realenvoy.Binary(t)
	for _, api := range []string{"GRPC", "DELTA_GRPC"} {
		t.Run(api, func(t *testing.T) {
			old, next := newRoot(t, "old"), newRoot(t, "next")
			c := startCA(t, old)
			conn := c.connect(t)
			clock := newTestClock()
			a := start(t, Options{CA: conn, RootFile: c.roots, Request: Request{TTL: time.Hour}, Clock: clock.clock()})
			e := startEnvoy(t, binary, fmt.Sprintf(bootstrap, a.socket, fmt.Sprintf(overSDS, api), httpManager))
			client, err := Request{Identity: identity, TTL: time.Hour}.issue(t.Context(), conn)
			require.NoError(t, err)
			var root string
			require.Eventually(t, func() bool {
				root = e.rootOfPeer(client.pair)
				return root != ""
			}, patience, 20*time.Millisecond)
			require.Equal(t, "old", root)
			require.Empty(t, e.rootOfPeer(nil), "a client without a certificate is refused")

			next.Roots = append(append([]byte{}, old.Roots...), next.Roots...)
			c.holder.Set(authority(t, next))
			require.Eventually(t, func() bool {
				clock.move(10 * time.Minute)
				root = e.rootOfPeer(client.pair)
				require.NotEmpty(t, root, "the old root is trusted")
				return root == "next"
			}, patience, 20*time.Millisecond)
			require.Zero(t, a.manager.Stats().Refused)
		})
	}
}

// TestRealEnvoyRefusesRevokedCertificates has an Envoy with the agent's roots and lists of revoked
// certificates. A client gets in until a list has its certificate, and again when there is no list.
func TestRealEnvoyRefusesRevokedCertificates(t *testing.T) {
	binary := realenvoy.Binary(t)
	keys := newRoot(t, "root")
	c := startCA(t, keys)
	conn := c.connect(t)
	clock := newTestClock()
	revoked := filepath.Join(t.TempDir(), "ca-crl.pem")
	require.NoError(t, os.WriteFile(revoked, listOf(t, keys), 0o600))
	a := start(t, Options{
		CA: conn, RootFile: c.roots, RevokedFile: revoked, Request: Request{TTL: time.Hour}, Clock: clock.clock(),
	})
	e := startEnvoy(t, binary, fmt.Sprintf(bootstrap, a.socket, fmt.Sprintf(overSDS, "DELTA_GRPC"), httpManager))
	good, err := Request{Identity: identity, TTL: time.Hour}.issue(t.Context(), conn)
	require.NoError(t, err)
	bad, err := Request{Identity: identity, TTL: time.Hour}.issue(t.Context(), conn)
	require.NoError(t, err)
	await := func(client *tls.Certificate, root string) {
		t.Helper()
		require.Eventually(t, func() bool {
			clock.move(time.Second) // files are read a moment after they have changed
			return e.rootOfPeer(client) == root
		}, patience, 20*time.Millisecond)
	}
	await(bad.pair, "root")
	require.NoError(t, os.WriteFile(revoked, listOf(t, keys, bad.pair.Leaf.SerialNumber), 0o600))
	await(bad.pair, "")
	require.Equal(t, "root", e.rootOfPeer(good.pair))

	require.NoError(t, os.WriteFile(revoked, []byte("lists"), 0o600))
	require.Eventually(t, func() bool {
		clock.move(time.Second)
		return strings.Count(a.log.String(), "part 1 is no list of revoked certificates") == 1
	}, patience, 20*time.Millisecond)
	require.Empty(t, e.rootOfPeer(bad.pair), "the lists from before stay in force")
	require.NoError(t, os.Remove(revoked))
	await(bad.pair, "root")
	require.Zero(t, a.manager.Stats().Refused)
}

// envoyProcess is a real Envoy.
type envoyProcess struct {
	t   *testing.T
	dir string
}

func startEnvoy(t *testing.T, binary, config string) *envoyProcess {
	t.Helper()
	e := &envoyProcess{t, t.TempDir()}
	file := filepath.Join(e.dir, "bootstrap.json")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(binary, "-c", file, "--admin-address-path", filepath.Join(e.dir, "admin"),
		"--concurrency", "1", "--disable-hot-restart", "-l", "error")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has exited
		_ = cmd.Wait()
	})
	return e
}

// rootOfPeer calls the listener, and returns the organization of who has issued its certificate; it
// is empty if the call fails.
func (e *envoyProcess) rootOfPeer(own *tls.Certificate) string {
	port := e.port()
	if port == 0 {
		return ""
	}
	var issuer *x509.Certificate
	config := &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the test looks at what it gets
		VerifyConnection: func(s tls.ConnectionState) error {
			issuer = s.PeerCertificates[0]
			return nil
		},
	}
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(fmt.Sprintf("https://127.0.0.1:%d/", port))
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(e.t, err)
	require.Equal(e.t, "hello", string(body))
	return issuer.Issuer.Organization[0]
}

// port returns that of the listener; 0 as long as there is none.
func (e *envoyProcess) port() int {
	admin, err := os.ReadFile(filepath.Join(e.dir, "admin"))
	if err != nil {
		return 0
	}
	answer, err := http.Get("http://" + string(admin) + "/listeners?format=json")
	if err != nil {
		return 0
	}
	defer func() { _ = answer.Body.Close() }()
	var listeners struct {
		Statuses []struct {
			Local struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if json.NewDecoder(answer.Body).Decode(&listeners) != nil || len(listeners.Statuses) == 0 {
		return 0
	}
	return listeners.Statuses[0].Local.Socket.Port
}
