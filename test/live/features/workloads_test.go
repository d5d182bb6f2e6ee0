package features

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// members is a StatefulSet of two pods, and its headless Service.
const members = `---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: app, image: lateen/sample, args: [--port, "8080"], ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: default}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: http, port: 80, targetPort: 8080}]}
`

// daemon is a DaemonSet with its Service.
const daemon = `---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log, namespace: default}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec:
      containers:
      - {name: app, image: lateen/sample, args: [--port, "8080", --version, v7], ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: log, namespace: default}
spec: {selector: {app: log}, ports: [{name: http, port: 80, targetPort: 8080}]}
`

// TestWorkloadsOfAllKindsAreReached is about pods that are no Deployment's.
func TestWorkloadsOfAllKindsAreReached(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("visitor", "v1").In("other"),
		livemesh.NewEcho("alone", "v1"), members, daemon,
	))
	client, visitor := m.Client("client-v1"), m.Client("other/visitor-v1")

	m.Run("a pod of a StatefulSet by its name", "", func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		for _, pod := range []string{"db-0", "db-1"} {
			for _, name := range []string{".db", ".db.default", ".db.default.svc", ".db.default.svc.cluster.local"} {
				a := client.Get("http://" + pod + name + "/")
				requireStatus(t, 200, a)
				require.Equal(t, pod, a.Echoed.Hostname)
			}
			a := visitor.Get("http://" + pod + ".db.default/")
			requireStatus(t, 200, a)
			require.Equal(t, pod, a.Echoed.Hostname)
		}
		requireStatus(t, 503, visitor.Get("http://db-0.db/"))
		requireStatus(t, 503, client.Get("http://db-2.db/"))
		requireStatus(t, 200, client.Get("http://db/"))
	})
	m.Run("the pod of a DaemonSet", "", func(t *testing.T, _ *livemesh.Mesh) {
		requireVersion(t, "v7", client.Get("http://log/"))
	})
	m.Run("Endpoints of a Service without a selector", livemesh.File("legacy.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: legacy, namespace: default}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: legacy, namespace: default}
subsets: [{addresses: [{ip: %s}], ports: [{name: http, port: 8080}]}]
`, m.Pod("alone-v1").App)), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v1", client.Get("http://legacy/"))
	})
}
