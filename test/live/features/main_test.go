// Package features tests what Lateen does for those who use it: each test runs a mesh of real
// Envoys from manifests, sends requests, and looks at the answers, never at configuration alone.
package features

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

func TestMain(m *testing.M) { livemesh.Main(m) }

// webMesh has a client, the service web (http, port 80) with versions v1 and v2, and the service
// far in namespace other.
func webMesh(t *testing.T) *livemesh.Mesh {
	t.Helper()
	return livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080"),
		livemesh.NewEcho("web", "v1"), livemesh.NewEcho("web", "v2"),
		livemesh.Service("web", "http:80:8080", "http-alt:8081:8080"),
		livemesh.NewEcho("far", "v1").In("other"), livemesh.Service("other/far", "http:80:8080"),
	)+livemesh.File("subsets.yaml", livemesh.Object("DestinationRule web", `
host: web
subsets:
- name: v1
  labels: {version: v1}
- name: v2
  labels: {version: v2}
`)))
}

// requireVersion requires an answer of a version of the echo server.
func requireVersion(t *testing.T, version string, a livemesh.Answer) {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, 200, a.Status, "%s", a)
	require.Equal(t, version, a.Echoed.Version, "%s", a)
}

func requireStatus(t *testing.T, status int, a livemesh.Answer) {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, status, a.Status, "%s", a)
}

// virtual is a file with one VirtualService.
func virtual(name, spec string) string {
	return livemesh.File("virtual-"+name+".yaml", livemesh.Object("VirtualService "+name, spec))
}

// rule is a file with one DestinationRule.
func rule(name, spec string) string {
	return livemesh.File("rule-"+name+".yaml", livemesh.Object("DestinationRule "+name, spec))
}

// subset is the destination of a subset of web.
func subset(name string) string {
	return fmt.Sprintf("{destination: {host: web, subset: %s}}", name)
}
