package features

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestHostsLeadToServices is about hosts that several objects have something to say of.
func TestHostsLeadToServices(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("alone", "v1"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("far", "v2").In("other"), livemesh.NewEcho("visitor", "v1").In("other"),
	))
	client, visitor := m.Client("client-v1"), m.Client("other/visitor-v1")
	entry := func(key, app, ports, more string) string {
		return livemesh.Object("ServiceEntry "+key, fmt.Sprintf(
			"hosts: [shared.test]\nresolution: STATIC\nports: [%s]\nworkloadSelector: {labels: {app: %s}}\n%s\n",
			ports, app, more,
		))
	}
	const http = "{number: 80, name: http, protocol: HTTP, targetPort: 8080}"

	m.Run("a ServiceEntry of the caller's own namespace comes first", livemesh.File("entries.yaml",
		created(created(entry("other/shared", "far", http, ""))),
		created(entry("own", "web", http, `exportTo: ["."]`)),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", client.Get("http://shared.test/"))
		requireVersion(t, "v2", visitor.Get("http://shared.test/"))
	})
	m.Run("ServiceEntries of a namespace add up", livemesh.File("entries.yaml",
		entry("a", "web", http, ""),
		entry("b", "web", strings.NewReplacer("80,", "8000,", "name: http", "name: http-alt").Replace(http), ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", client.Get("http://shared.test/"))
		requireVersion(t, "v1", client.Get("http://shared.test:8000/"))
		m.Delete("entries.yaml")
		m.Apply(livemesh.File("entries.yaml", entry("b", "web", http, "")))
		requireVersion(t, "v1", client.Get("http://shared.test/"))
	})
	m.Run("an ExternalName without ports is another name of a service", livemesh.File("alias.yaml", `
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: default}
spec: {type: ExternalName, externalName: web.default.svc.cluster.local}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", client.Get("http://alias/"))
		m.Apply(virtual("web", "hosts: [web]\nhttp:\n- directResponse: {status: 418}\n"))
		requireStatus(t, 418, client.Get("http://alias/"))
		m.Delete("virtual-web.yaml")
	})
	m.Run("a ServiceEntry that lists a workload opens its port", livemesh.File("listed.yaml",
		livemesh.Object("ServiceEntry alone", fmt.Sprintf(
			"hosts: [alone.test]\nresolution: STATIC\nports: [%s]\nendpoints: [{address: %s}]\n",
			http, m.Pod("alone-v1").Pod,
		)),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", client.Get("http://alone.test/"))
	})
	m.Run("and a WorkloadEntry", livemesh.File("listed.yaml",
		livemesh.Selecting("default", "alone", "app: nothing-but-listed", "http:80:8080"),
		livemesh.Object("WorkloadEntry alone", fmt.Sprintf(
			"address: %s\nlabels: {app: nothing-but-listed}\n", m.Pod("alone-v1").Pod,
		)),
	), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", client.Get("http://alone/"))
	})
}
