package features

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestTerminatedTLSRoutesAreToldApartBySNI is TLSRoutes on one listener that terminates TLS: each
// takes the connections that ask for its names, and no other one does.
func TestTerminatedTLSRoutesAreToldApartBySNI(t *testing.T) {
	one := certs.NewAuthority(t, "the gateway's").Issue(t, "db.test")
	route := func(name string, port int) string {
		return livemesh.Object("TLSRoute "+name, fmt.Sprintf(`
parentRefs: [{name: public}]
hostnames: [%[1]s.db.test]
rules: [{backendRefs: [{name: %[1]s, port: %[2]d}]}]
`, name, port))
	}
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8444), one.Secret("default", "db", ""),
		livemesh.NewEcho("first", "v1").HTTP().TCP(7000), livemesh.Service("first", "tcp:9000:7000"),
		livemesh.NewEcho("second", "v2").HTTP().TCP(7000), livemesh.Service("second", "tcp:9001:7000"),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners:
- name: dbs
  port: 8444
  protocol: TLS
  hostname: "*.db.test"
  tls: {mode: Terminate, certificateRefs: [{name: db}]}
`), route("first", 9000), route("second", 9001)))
	m.RequireNoProblems()
	ask := func(name string) (string, error) {
		conn := tls.Client(m.DialPod("istio-ingress", 8444), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprintln(conn, "hello"); err != nil {
			return "", err
		}
		answer := make([]byte, 200)
		n, err := conn.Read(answer)
		return string(answer[:n]), err
	}
	for name, version := range map[string]string{"first.db.test": "v1", "second.db.test": "v2"} {
		answer, err := ask(name)
		require.NoError(t, err)
		require.Contains(t, answer, version, name)
	}
	for _, name := range []string{"third.db.test", "db.test"} {
		_, err := ask(name)
		require.Error(t, err, name)
	}
}
