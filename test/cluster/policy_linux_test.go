package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// requestPolicies are rules about requests where a server cannot know by its own configuration that
// a port speaks HTTP: callers in TLS of the mesh say it (ALPN). First on a port that no service
// names, then on one that does not say what it speaks, which takes bytes too.
func requestPolicies(t *testing.T, c *cluster) {
	c.apply(t, strings.Replace(
		deployment("vault", "vault", "v1", 1, []string{"--version=v1", "--port=8080", "--tcp=9100"}),
		"metadata: {labels: {", "metadata: {labels: {security.istio.io/tlsMode: istio, ", 1,
	))
	c.ready(t, "vault")
	w := c.from(t, "app=client")
	address := net.JoinHostPort(c.pods(t, "app=vault")[0].Status.PodIP, "8080")
	asks := func(path string, status int) func() bool {
		return func() bool { return w.requestOfMesh(t, address, path) == status }
	}
	c.await(t, "a request is answered before there is a policy", asks("/", http.StatusOK))
	c.apply(t, livemesh.Object("AuthorizationPolicy vault", `
selector: {matchLabels: {app: vault}}
action: DENY
rules: [{to: [{operation: {paths: [/silver], ports: ["8080"]}}]}]
`))
	plain := func(path string, is int) func() bool {
		return func() bool { return w.get("http://"+address+path).status == is }
	}
	c.await(t, "a request in plaintext is denied on an undeclared port", plain("/silver", http.StatusForbidden))
	c.await(t, "another one is not", plain("/", http.StatusOK))
	c.apply(t,
		livemesh.Object("PeerAuthentication vault", "selector: {matchLabels: {app: vault}}\nmtls: {mode: STRICT}"),
		livemesh.Object("AuthorizationPolicy vault", `
selector: {matchLabels: {app: vault}}
action: DENY
rules: [{to: [{operation: {paths: [/gold], ports: ["8080"]}}]}]
`))
	c.await(t, "a request is denied on an undeclared port", asks("/gold", http.StatusForbidden))
	c.await(t, "another one is not", asks("/", http.StatusOK))

	c.apply(t, livemesh.Object("Service vault", `
selector: {app: vault}
ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 9100}]
`))
	// Bytes come first: each try is a new connection, so the listener of the service is there for
	// the requests after it, which keep theirs.
	c.await(t, "a port that does not say what it speaks takes bytes", func() bool {
		return w.echoesAt(t, "vault", "9100")
	})
	w.until(t, "http://vault/gold", "denied on a port that does not say what it speaks", status(http.StatusForbidden))
	w.until(t, "http://vault/", "answered there", ok)
}

// requestOfMesh asks in TLS of the mesh, as a proxy does for requests, and returns the status; 0
// without an answer.
func (w *workload) requestOfMesh(t *testing.T, address, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := w.pod.Dial(ctx, "tcp", address)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	secure := tls.Client(conn, &tls.Config{ //nolint:gosec // who answers is not what is tested
		Certificates: []tls.Certificate{w.c.certificate(t)}, InsecureSkipVerify: true,
		NextProtos: []string{"istio-http/1.1"},
	})
	if _, err := fmt.Fprintf(secure, "GET %s HTTP/1.1\r\nHost: vault\r\n\r\n", path); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}
