package features

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestCompliancePolicyStandsAboveObjects: what a sidecar and a gateway take in TLS is what the
// policy of the control plane lets pass, whatever the objects say, and a sidecar calls so too.
func TestCompliancePolicyStandsAboveObjects(t *testing.T) {
	type client struct {
		name    string
		version uint16
		cipher  uint16
		curve   tls.CurveID
		denied  bool
	}
	const chacha = tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
	const aes = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
	for _, c := range []struct {
		policy  compliance.Policy
		clients []client
	}{
		{compliance.FIPS1402, []client{
			{"TLS 1.2", tls.VersionTLS12, aes, tls.CurveP256, false},
			{"TLS 1.3", tls.VersionTLS13, 0, tls.CurveP256, true},
			{"ChaCha20", tls.VersionTLS12, chacha, tls.CurveP256, true},
			{"X25519", tls.VersionTLS12, aes, tls.X25519, true},
		}},
		{compliance.FIPS1403, []client{
			{"TLS 1.2", tls.VersionTLS12, aes, tls.CurveP256, false},
			{"TLS 1.3", tls.VersionTLS13, 0, tls.CurveP384, false},
			{"ChaCha20", tls.VersionTLS12, chacha, tls.CurveP256, true},
			{"X25519", tls.VersionTLS13, 0, tls.X25519, true},
		}},
		{compliance.PostQuantum, []client{
			{"TLS 1.3", tls.VersionTLS13, 0, tls.X25519MLKEM768, false},
			{"TLS 1.2", tls.VersionTLS12, aes, tls.CurveP256, true},
			{"P-256", tls.VersionTLS13, 0, tls.CurveP256, true},
		}},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			options, authority := agentMesh(t)
			options.Compliance = c.policy
			m := livemesh.StartWith(t, options, livemesh.File("base.yaml",
				livemesh.GatewayPod(8443), livemesh.NewEcho("client", "v1"),
				inTLS(livemesh.NewEcho("web", "v1")), livemesh.Service("web", "http:80:8080"),
				livemesh.Object("PeerAuthentication strict", "mtls: {mode: STRICT}"),
				livemesh.Object("DestinationRule web", "host: web\ntrafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\n"),
				authority.Issue(t, "open.test").Secret("default", "open", ""),
				secure("open", "open.test", "{mode: SIMPLE, credentialName: open, minProtocolVersion: TLSV1_2, "+
					"cipherSuites: [ECDHE-ECDSA-CHACHA20-POLY1305, ECDHE-ECDSA-AES256-GCM-SHA384]}", "web"),
			))
			m.RequireNoProblems()
			requireVersion(t, "v1", m.Client("client-v1").Get("http://web/", livemesh.Host("web")))
			own := authority.Issue(t, "member", certs.Identity(spiffe("default", "member"))).TLS(t)
			for _, with := range c.clients {
				config := &tls.Config{
					InsecureSkipVerify: true, Certificates: []tls.Certificate{own},
					MinVersion: with.version, MaxVersion: with.version, CurvePreferences: []tls.CurveID{with.curve},
				}
				if with.cipher != 0 {
					config.CipherSuites = []uint16{with.cipher}
				}
				for _, server := range []struct {
					workload, host string
					port           uint16
				}{{"web-v1", "web-v1", 8080}, {"istio-ingress", "open.test", 8443}} {
					client := m.SecureGateway(server.workload, server.port, config.Clone())
					a := client.Get("https://" + server.host + "/")
					if with.denied {
						require.ErrorContains(t, a.Err, "tls: ", "%s: %s", server.workload, with.name)
						continue
					}
					requireVersion(t, "v1", a)
					require.Equal(t, with.curve, a.TLS.CurveID, "%s: %s", server.workload, with.name)
				}
			}
		})
	}
}
