package compile_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

const istioFiltersMesh = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp-db, port: 5432}
  - {name: main, port: 9000}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: default}
spec:
  selector: {app: web}
  servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: default, labels: {app: web}}
spec: {containers: [{name: c, image: i}]}
status: {podIP: 10.0.0.1, phase: Running}
`

// TestIstiosFiltersGoToEnvoysOfItsBuildAlone: a stock Envoy refuses a listener or cluster that
// names a filter of Istio's build. An Envoy of that build gets these, and no statistics of Lateen's
// form, whatever its agent reads.
func TestIstiosFiltersGoToEnvoysOfItsBuildAlone(t *testing.T) {
	for _, c := range []struct {
		what  string
		typ   scope.ProxyType
		istio bool
	}{
		{what: "stock sidecar"}, {what: "Istio's sidecar", istio: true},
		{what: "stock gateway", typ: scope.Router}, {what: "Istio's gateway", typ: scope.Router, istio: true},
	} {
		for _, agentReads := range []bool{false, true} {
			state := compiledFor(t, istioFiltersMesh, scope.Proxy{
				Type: c.typ, Namespace: "default", Name: "web-1", Address: "10.0.0.1",
				Labels: model.LabelsOf(map[string]string{"app": "web"}),
				Settings: scope.Settings{
					Intercepted: c.typ == scope.Sidecar, Agent: true, Metrics: agentReads, IstioFilters: c.istio,
				},
			})
			for _, text := range []string{"istio.stats", "stats.PluginConfig", "io.istio.http.peer_metadata.Config"} {
				require.Equal(t, c.istio, contains(state, resource.Listener, text), "%s: %s", c.what, text)
			}
			if own := state.Set(resource.Cluster).Get("inbound|8080||"); own != nil {
				require.Equal(t, c.istio, bytes.Contains(own.Body(), []byte("web.default.svc.cluster.local")), c.what)
			} else {
				require.Equal(t, scope.Router, c.typ, "a sidecar has its workload's ports")
			}
			exchanges := contains(state, resource.Cluster, "istio.metadata_exchange")
			require.Equal(t, c.istio && c.typ == scope.Sidecar, exchanges, c.what)
			logs := contains(state, resource.Listener, "envoy.access_loggers.stats")
			require.Equal(t, agentReads && !c.istio, logs, c.what)
		}
	}
}

func contains(s resource.State, typ resource.Type, text string) bool {
	for r := range s.Set(typ).All() {
		if bytes.Contains(r.Body(), []byte(text)) {
			return true
		}
	}
	return false
}

// compiledFor returns what a proxy gets of manifests.
func compiledFor(t *testing.T, manifests string, proxy scope.Proxy) (out resource.State) {
	t.Helper()
	documents, problems := manifest.Read("mesh.yaml", []byte(manifests))
	require.Empty(t, problems)
	converter, writer := convert.New(convert.Options{}), state.NewWriter()
	var updates []state.Update
	for _, d := range documents {
		result := converter.Convert(d.Change(d.Object.GetCreationTimestamp().Time), model.DefaultMesh())
		require.Empty(t, result.Problems)
		updates = append(updates, state.Update{Key: d.Key, Objects: result.Objects})
	}
	compiler := compile.NewCompiler(compile.Refusals{})
	_, delta := writer.Apply(updates)
	compiler.Advance(delta, func(compile.Step) {})
	compiler.Join(compile.Facts{Proxy: proxy}, func(_ *compile.Member, placed compile.Placement) { out = placed.State })
	return out
}
