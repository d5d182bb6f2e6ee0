package features

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// certificateFiles writes the certificate of a name, and the authority, and returns the settings of
// TLS with these files.
func certificateFiles(t *testing.T, authority *certs.Authority, name string) (settings string) {
	t.Helper()
	dir, pair := t.TempDir(), authority.Issue(t, name)
	for file, text := range map[string]string{"key": pair.Key, "cert": pair.Certificate, "ca": authority.PEM} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	return fmt.Sprintf(
		"serverCertificate: %[1]s/cert, privateKey: %[1]s/key, caCertificates: %[1]s/ca", dir,
	)
}

// TestSidecarEndsTLSOfStrangers: an ingress listener of a Sidecar ends TLS with certificates from
// files, and may have an address of its own.
func TestSidecarEndsTLSOfStrangers(t *testing.T) {
	authority := certs.NewAuthority(t, "test authority")
	files := certificateFiles(t, authority, "web.test")
	const bind = "127.99.7.31"
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("Sidecar web", fmt.Sprintf(`
workloadSelector: {labels: {app: web}}
ingress:
- port: {number: 9443, name: https, protocol: HTTPS}
  defaultEndpoint: 127.0.0.1:8080
  tls: {mode: SIMPLE, %[1]s}
- port: {number: 9444, name: mutual, protocol: TLS}
  defaultEndpoint: 127.0.0.1:8080
  captureMode: NONE
  tls: {mode: MUTUAL, %[1]s}
- port: {number: 9080, name: http, protocol: HTTP}
  bind: %[2]s
  defaultEndpoint: 127.0.0.1:8080
`, files, bind))))
	require.Empty(t, m.ProblemsWith("error"))
	get := func(port uint16, config *tls.Config) livemesh.Answer {
		return m.SecureGateway("web-v1", port, config).Get("https://web.test/")
	}
	requireVersion(t, "v1", get(9443, trusting(authority)))
	require.Error(t, m.Gateway("web-v1", 9443).Get("/").Err, "plaintext")
	require.Error(t, get(9444, trusting(authority)).Err, "without a certificate")
	known := trusting(authority)
	known.Certificates = []tls.Certificate{authority.Issue(t, "client.test").TLS(t)}
	requireVersion(t, "v1", get(9444, known))

	resp, err := http.Get("http://" + bind + ":9080/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Error(t, m.Gateway("web-v1", 9080).Get("/").Err, "at the workload's own address")
}

// TestSidecarEndsNoTLSOfStrangersBesideTLSOfTheMesh: a port that takes mutual TLS of the mesh takes
// nothing else if it was to end TLS.
func TestSidecarEndsNoTLSOfStrangersBesideTLSOfTheMesh(t *testing.T) {
	options, _ := agentMesh(t)
	authority := certs.NewAuthority(t, "test authority")
	m := livemesh.StartWith(t, options, livemesh.File("base.yaml",
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("Sidecar web", fmt.Sprintf(`
workloadSelector: {labels: {app: web}}
ingress:
- port: {number: 9443, name: https, protocol: HTTPS}
  defaultEndpoint: 127.0.0.1:8080
  tls: {mode: SIMPLE, %s}
`, certificateFiles(t, authority, "web.test")))))
	m.AwaitProblem("error", "Sidecar default/web", "spec.ingress", "9443", "mutual TLS of the mesh")
	strangers := func(m *livemesh.Mesh) livemesh.Answer {
		return m.SecureGateway("web-v1", 9443, trusting(authority)).Get("https://web.test/")
	}
	require.Error(t, strangers(m).Err)
	require.Equal(t, http.StatusForbidden, m.Gateway("web-v1", 9443).Get("/").Status)
	m.Run("without TLS of the mesh", livemesh.File("plain.yaml",
		livemesh.Object("PeerAuthentication web", "mtls: {mode: DISABLE}")), func(t *testing.T, m *livemesh.Mesh) {
		require.Empty(t, m.ProblemsWith("error"))
		requireVersion(t, "v1", strangers(m))
		require.Error(t, m.Gateway("web-v1", 9443).Get("/").Err)
	})
}
