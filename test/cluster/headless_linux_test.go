package cluster

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// headlessTLS calls a pod of a headless service at its TLS port, where unknown destinations are
// closed: whichever name a client asks for, and if it speaks no TLS at all, the connection is the
// service's.
func headlessTLS(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	server := c.pods(t, "app=server,version=v1")[0]
	address := net.JoinHostPort(server.Status.PodIP, "9001")
	c.apply(t, livemesh.Object("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"))
	c.await(t, "a port that nobody names is closed", func() bool { return w.lines(t, address) == "" })
	c.apply(t, livemesh.Selecting(space, "each-tls", "app: server, version: v1", "tls:9001")+"  clusterIP: None\n")
	w.untilLines(t, address, "v1")
	for _, name := range []string{
		"each-tls." + space + ".svc.cluster.local", "server-0.each-tls." + space + ".svc.cluster.local", "each-tls",
		"another.example.com",
	} {
		require.Equal(t, "v1", w.answersHello(t, address, name), name)
	}
}

// answersHello is who answers a client that begins TLS and asks for a name, by the version of the
// line echo; empty for nobody.
func (w *workload) answersHello(t *testing.T, address, name string) string {
	t.Helper()
	return w.answerer(t, address, clientHello(t, name))
}

// clientHello is the first message of a client that asks for a name.
func clientHello(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).Handshake()
		_ = client.Close()
	}()
	message := make([]byte, 16<<10)
	n, err := server.Read(message)
	require.NoError(t, err)
	return message[:n]
}
