package features

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestCredentialsOfReceiversStayInTheEnvironment: receivers by HTTP get a token that the mesh
// configuration names and does not have. Nothing that Envoy shows of its configuration has it.
func TestCredentialsOfReceiversStayInTheEnvironment(t *testing.T) {
	const token = "s3cret-of-the-receiver"
	r := newRecorder(t)
	const header = `[{name: authorization, value: "Bearer %ENVIRONMENT(SPANS_TOKEN)% 50%%"}]`
	m := livemesh.Start(t, livemesh.File("mesh.yaml", fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    extensionProviders:
    - {name: otel, opentelemetry: {service: spans.test, port: 80, http: {path: /v1/traces, headers: %[1]s}}}
    - {name: zipkin, zipkin: {service: spans.test, port: 80, headers: %[1]s}}
`, header))+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		r.entry("spans.test"),
		livemesh.Object("ProxyConfig default/token", "environmentVariables: {SPANS_TOKEN: "+token+"}"),
	))
	for provider, path := range map[string]string{"otel": "/v1/traces", "zipkin": "/api/v2/spans"} {
		m.Run(provider, telemetryFor("traces", `
tracing: [{providers: [{name: `+provider+`}], randomSamplingPercentage: 100}]
`), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			requireStatus(t, 200, m.Client("client-v1").Get("http://web/"))
			require.Equal(t, "Bearer "+token+" 50%", r.await(m, path).Header.Get("authorization"))
			dump := m.Admin("client-v1", "/config_dump")
			require.Contains(t, dump, "%ENVIRONMENT(SPANS_TOKEN)%")
			require.NotContains(t, dump, token)
		})
	}
}
