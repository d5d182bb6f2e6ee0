package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// mutualTLS are the modes of PeerAuthentications on ports that no service names, and then on ports
// that one names. A connection is made in plaintext, in TLS of the mesh (ALPN istio), and in TLS
// with a certificate of the mesh that asks for no protocol. Callers of the service reach it in each
// mode: in TLS under STRICT, in plaintext under DISABLE.
func mutualTLS(t *testing.T, c *cluster) {
	quiet := []string{"--version=v1", "--port=8080", "--tcp=9100", "--tcp=9101"}
	c.apply(t, ofMesh(deployment("quiet", "quiet", "v1", 1, quiet)))
	c.ready(t, "quiet")
	w := c.from(t, "app=client")
	pod := c.pods(t, "app=quiet")[0].Status.PodIP
	t.Run("undeclared", func(t *testing.T) { portModes(t, w, []string{pod}, nil) })
	c.apply(t, livemesh.Object("Service quiet", `
selector: {app: quiet}
ports: [{name: tcp-a, port: 9100}, {name: tcp-b, port: 9101}]
`))
	t.Run("named", func(t *testing.T) { portModes(t, w, []string{pod}, []string{"quiet"}) })
}

// portModes tries policies on the ports 9100, which they may name, and 9101.
func portModes(t *testing.T, w *workload, direct, services []string) {
	const all, of = "plain mesh", "selector: {matchLabels: {app: quiet}}\n"
	for _, test := range []struct{ spec, named, other string }{
		{"", all, all},
		{"mtls: {mode: STRICT}", "mesh tls", "mesh tls"},
		{"mtls: {mode: PERMISSIVE}\nportLevelMtls: {9100: {mode: STRICT}}", "mesh tls", all},
		{"mtls: {mode: STRICT}\nportLevelMtls: {9100: {mode: PERMISSIVE}}", all, "mesh tls"},
		{"mtls: {mode: STRICT}\nportLevelMtls: {9100: {mode: DISABLE}}", "plain", "mesh tls"},
		{"mtls: {mode: DISABLE}\nportLevelMtls: {9100: {mode: STRICT}}", "mesh tls", "plain"},
		{"mtls: {mode: DISABLE}", "plain", "plain"},
	} {
		t.Run(strings.ReplaceAll(test.spec, "\n", " "), func(t *testing.T) {
			if test.spec != "" {
				w.c.apply(t, livemesh.Object("PeerAuthentication quiet", of+test.spec))
			}
			for port, want := range map[string]string{"9100": test.named, "9101": test.other} {
				for _, host := range direct {
					at := net.JoinHostPort(host, port)
					w.c.await(t, fmt.Sprintf("%s is taken in %q, not in %q", at, want, w.waysIn(t, at)), func() bool {
						return w.waysIn(t, at) == want
					})
				}
				for _, name := range services {
					w.c.await(t, name+" is called as it wants at "+port, func() bool {
						return w.echoesAt(t, name, port)
					})
				}
			}
		})
	}
}

// echoesAt reports whether a line comes back from a service, to which the proxy calls.
func (w *workload) echoesAt(t *testing.T, service, port string) bool {
	t.Helper()
	svc, err := w.c.client.CoreV1().Services(w.c.namespace).Get(t.Context(), service, metav1.GetOptions{})
	require.NoError(t, err)
	return w.echoes(net.JoinHostPort(svc.Spec.ClusterIP, port), func(conn net.Conn) net.Conn { return conn })
}

// waysIn tells in which ways a line echo can be reached.
func (w *workload) waysIn(t *testing.T, address string) string {
	pair := w.c.certificate(t)
	config := &tls.Config{ //nolint:gosec // who answers is not what is tested
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true,
	}
	ofMesh := config.Clone()
	ofMesh.NextProtos = []string{"istio"}
	var found []string
	for _, way := range []struct {
		name string
		wrap func(net.Conn) net.Conn
	}{
		{"plain", func(conn net.Conn) net.Conn { return conn }},
		{"mesh", func(conn net.Conn) net.Conn { return tls.Client(conn, ofMesh) }},
		{"tls", func(conn net.Conn) net.Conn { return tls.Client(conn, config) }},
	} {
		if w.echoes(address, way.wrap) {
			found = append(found, way.name)
		}
	}
	return strings.Join(found, " ")
}

// echoes reports whether a line comes back.
func (w *workload) echoes(address string, wrap func(net.Conn) net.Conn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := w.pod.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	wrapped := wrap(conn)
	if _, err := fmt.Fprintln(wrapped, "hello"); err != nil {
		return false
	}
	line, err := bufio.NewReader(wrapped).ReadString('\n')
	return err == nil && strings.Contains(line, "hello")
}
