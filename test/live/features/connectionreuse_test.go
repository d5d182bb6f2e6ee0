package features

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestAReusedConnectionReachesItsOwnServerAlone is a browser that uses one HTTP/2 connection for
// all names of its certificate: for those of other servers of the port it gets 421, and 404 for
// those that no server has. The VirtualService is bound to all, and a server with a wildcard covers
// the name of another one that asks for client certificates.
func TestAReusedConnectionReachesItsOwnServerAlone(t *testing.T) {
	authority := certs.NewAuthority(t, "the gateway's")
	wild := authority.Issue(t, "*.shop.test")
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8444), wild.Secret("default", "wild", ""),
		wild.Secret("default", "clients", authority.PEM),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("Gateway first", `
selector: {istio: ingress}
servers:
- port: {number: 8444, name: https-a, protocol: HTTPS}
  hosts: [a.shop.test]
  tls: {mode: SIMPLE, credentialName: wild}
- port: {number: 8444, name: https-wide, protocol: HTTPS}
  hosts: ["*.shop.test"]
  tls: {mode: SIMPLE, credentialName: wild}
`), livemesh.Object("Gateway second", `
selector: {istio: ingress}
servers:
- port: {number: 8444, name: https-b, protocol: HTTPS}
  hosts: [b.shop.test]
  tls: {mode: MUTUAL, credentialName: clients}
`), livemesh.Object("VirtualService all", `
hosts: [a.shop.test, b.shop.test, c.shop.test]
gateways: [first, second]
http: [{route: [{destination: {host: web}}]}]
`)))
	m.RequireNoProblems()
	for _, c := range []struct {
		connected, asked string
		want             int
	}{
		{"a.shop.test", "a.shop.test", 200},
		{"a.shop.test", "b.shop.test", 421},
		{"a.shop.test", "c.shop.test", 421},
		{"a.shop.test", "shop.test", 404},
		{"c.shop.test", "c.shop.test", 200},
		{"c.shop.test", "b.shop.test", 421},
		{"c.shop.test", "unrouted.shop.test", 404},
	} {
		dialed := 0
		reused := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(
			ctx context.Context, _, _ string,
		) (net.Conn, error) {
			dialed++
			conn := tls.Client(m.DialPod("istio-ingress", 8444), &tls.Config{
				ServerName: c.connected, InsecureSkipVerify: true, NextProtos: []string{"h2"},
			})
			return conn, conn.HandshakeContext(ctx)
		}}
		for _, host := range []string{c.connected, c.asked} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.connected+"/", http.NoBody)
			require.NoError(t, err)
			r.Host = host
			answer, err := reused.RoundTrip(r)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, answer.Body)
			require.NoError(t, answer.Body.Close())
			want := c.want
			if host == c.connected {
				want = 200
			}
			require.Equal(t, want, answer.StatusCode, "%s on a connection to %s", host, c.connected)
		}
		require.Equal(t, 1, dialed)
		reused.CloseIdleConnections()
	}
}
