package features

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestNothingFailsOpen is about mistakes that would open something if the object simply counted as
// absent. The outcome is that of the table in docs/bad-objects.md; the others notice nothing.
func TestNothingFailsOpen(t *testing.T) {
	m := badMesh(t, livemesh.Options{})
	outside := newRecorder(t)
	unknown := fmt.Sprintf("http://localhost:%d/unknown", outside.address().Port())
	web := asks("http://web/")
	for _, c := range []struct {
		name, manifest string
		told           []string
		closed         func(*livemesh.Mesh) string // 503 or 502 while the object stands
		want           string
	}{
		{
			name: "TLS that cannot be honoured is not plaintext",
			manifest: livemesh.Object("DestinationRule a", "host: steady\nexportTo: [other]\n") + livemesh.Object(
				"DestinationRule b", "host: web\ntrafficPolicy: {tls: {mode: MUTUAL, credentialName: c}}\n",
			),
			told: []string{
				"DestinationRule default/b", "spec.trafficPolicy", "the destination is closed to sidecars",
			}, closed: web, want: "503",
		},
		{
			name: "a Sidecar whose hosts cannot be read shows nothing",
			manifest: livemesh.Object("Sidecar s", "workloadSelector: {labels: {app: web}}\n"+
				"egress: [{hosts: [steady]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"),
			told: []string{"Sidecar default/s", "spec.egress[0].hosts[0]", "steady"},
			closed: func(m *livemesh.Mesh) string {
				return outcome(m.Client("web-v1").Get("http://steady/"))
			}, want: "502",
		},
		{
			name: "a mesh configuration that cannot be read refuses unknown hosts",
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\n" +
				"data: {mesh: \"outboundTrafficPolicy: [\"}\n",
			told: []string{"ConfigMap istio-system/istio", "data"}, closed: asks(unknown), want: "502",
		},
		{
			name: "an outbound policy that cannot be honoured refuses unknown hosts",
			manifest: livemesh.Object("Sidecar s", "outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: "+
				"web.default.svc.cluster.local}}\n"), // no port
			told:   []string{"Sidecar default/s", "spec.outboundTrafficPolicy.egressProxy"},
			closed: asks(unknown),
			want:   "502",
		},
		{
			name: "a host that its resolution cannot be for is known, without endpoints",
			manifest: livemesh.Object("ServiceEntry e", "hosts: [localhost]\nresolution: DYNAMIC_DNS\n"+
				"ports: [{number: "+fmt.Sprint(outside.address().Port())+", name: http, protocol: HTTP}]\n"),
			told: []string{"ServiceEntry default/e", "spec.hosts[0]"}, closed: asks(unknown), want: "503",
		},
	} {
		runUnderLoad(m, c.name, func(t *testing.T, m *livemesh.Mesh, load *livemesh.Load) {
			require.NotEqual(t, c.want, c.closed(m))
			m.Write("bad.yaml", c.manifest)
			m.Settle()
			require.NotEmpty(t, m.ProblemsWith(c.told...), "%v", m.Problems())
			require.Equal(t, c.want, c.closed(m))
			load.Advance(3)
			m.Delete("bad.yaml")
			m.Settle()
			require.NotEqual(t, c.want, c.closed(m))
		})
	}
}
