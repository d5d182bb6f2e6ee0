package features

import (
	"fmt"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/sdsagent"
)

// agentMesh is a mesh with agents; the options are those of each Envoy, and the authority is the
// mesh's.
func agentMesh(t *testing.T) (livemesh.Options, *certs.Authority) {
	t.Helper()
	a := sdsagent.Start(t)
	return livemesh.Options{Bootstrap: fmt.Sprintf(`
node: {metadata: {ENVOY_STATUS_PORT: 15021}}
static_resources:
  clusters:
  - name: sds-grpc
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: sds-grpc
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: %s}}}}]}]
`, a.Socket)}, a.Authority
}

// spiffe is the identity of a service account.
func spiffe(namespace, account string) string { return sdsagent.Spiffe(namespace, account) }
