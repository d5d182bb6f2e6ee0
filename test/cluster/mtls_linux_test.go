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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/sdsagent"
)

// mutualTLS are the modes of PeerAuthentications on ports that no service names. A connection is
// made in plaintext, in TLS of the mesh (ALPN istio), and in TLS with a certificate of the mesh
// that asks for no protocol.
func mutualTLS(t *testing.T, c *cluster) {
	c.apply(t, deployment("quiet", "quiet", "v1", 1,
		[]string{"--version=v1", "--port=8080", "--tcp=9100", "--tcp=9101"}))
	c.ready(t, "quiet")
	mesh := metav1.ObjectMeta{Name: "istio-system"}
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: mesh},
		metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.client.CoreV1().ConfigMaps(mesh.Name).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio"}, Data: map[string]string{"mesh": "enableAutoMtls: true"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { // for the scenarios that follow
		_ = c.client.CoreV1().ConfigMaps(mesh.Name).Delete(context.Background(), "istio", metav1.DeleteOptions{})
	})
	w := c.from(t, "app=client")
	address := c.pods(t, "app=quiet")[0].Status.PodIP
	const all = "plain mesh"
	for _, test := range []struct{ spec, named, other string }{
		{"", all, all},
		{"mtls: {mode: STRICT}", "mesh tls", "mesh tls"},
		{"mtls: {mode: PERMISSIVE}\nportLevelMtls: {9100: {mode: STRICT}}", "mesh tls", all},
		{"mtls: {mode: STRICT}\nportLevelMtls: {9100: {mode: PERMISSIVE}}", all, "mesh tls"},
		{"mtls: {mode: STRICT}\nportLevelMtls: {9100: {mode: DISABLE}}", "plain", "mesh tls"},
		{"mtls: {mode: DISABLE}", "plain", "plain"},
	} {
		t.Run(strings.ReplaceAll(test.spec, "\n", " "), func(t *testing.T) {
			if test.spec != "" {
				selected := "selector: {matchLabels: {app: quiet}}\n" + test.spec
				c.apply(t, livemesh.Object("PeerAuthentication quiet", selected))
			}
			for port, want := range map[int]string{9100: test.named, 9101: test.other} {
				at := net.JoinHostPort(address, fmt.Sprint(port))
				c.await(t, fmt.Sprintf("port %d is taken in %q, not in %q", port, want, w.waysIn(t, at)), func() bool {
					return w.waysIn(t, at) == want
				})
			}
		})
	}
}

// waysIn tells in which ways a line echo can be reached.
func (w *workload) waysIn(t *testing.T, address string) string {
	pair := w.c.agent.Authority.Issue(t, "client", certs.Identity(sdsagent.Spiffe(space, "default")))
	config := &tls.Config{ //nolint:gosec // who answers is not what is tested
		Certificates: []tls.Certificate{pair.TLS(t)}, InsecureSkipVerify: true,
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
