package features

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestPoliciesAreAttachedToGateways has policies with targetRefs: they are for the workloads of the
// Gateway of the Gateway API that they name, and for nobody else.
func TestPoliciesAreAttachedToGateways(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		strings.ReplaceAll(livemesh.GatewayPod(8080), "istio: ingress", model.GatewayNameLabel+": public"),
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
listeners: [{name: any, port: 8080, protocol: HTTP}]
`),
		livemesh.Object("HTTPRoute web", `
parentRefs: [{name: public}]
rules: [{backendRefs: [{name: web, port: 80}]}]
`)))
	gateway, client, tokens := m.Gateway("istio-ingress", 8080), m.Client("client-v1"), newSigner(t, "https://a.test")
	// requireAt requires the status of a request through the gateway, and that the mesh answers it.
	requireAt := func(t *testing.T, m *livemesh.Mesh, status int, path string, options ...livemesh.Option) {
		t.Helper()
		m.Await("the new listener is used", func() bool { return gateway.Get(path, options...).Status == status })
		for range 3 {
			requireStatus(t, status, gateway.Get(path, options...))
			requireStatus(t, 200, client.Get("http://web"+path, options...))
		}
	}
	policy := func(target, more string) string {
		return livemesh.File("policy.yaml", livemesh.Object("AuthorizationPolicy policy",
			"targetRefs: [{"+target+"}]\n"+more))
	}
	const public = "kind: Gateway, group: gateway.networking.k8s.io, name: public"

	m.Run("DENY", policy(public, "action: DENY\nrules: [{to: [{operation: {paths: [/no]}}]}]"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			requireAt(t, m, 403, "/no")
			requireAt(t, m, 200, "/yes")
		})
	m.Run("nothing is allowed", policy(public, ""), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireAt(t, m, 403, "/")
	})
	verified := livemesh.File("tokens.yaml", livemesh.Object("RequestAuthentication tokens",
		"targetRefs: [{"+public+"}]\njwtRules: ["+tokenRule(tokens, "")+"]"))
	m.Run("tokens", policy(public, `rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]`)+verified,
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			requireAt(t, m, 403, "/")
			requireAt(t, m, 200, "/", bearer(tokens.token()))
			requireAt(t, m, 401, "/", bearer(newSigner(t, "https://a.test").token()))
		})
	m.Run("another Gateway", policy("kind: Gateway, group: gateway.networking.k8s.io, name: other", ""),
		func(t *testing.T, m *livemesh.Mesh) {
			m.AwaitProblem("AuthorizationPolicy default/policy", "spec.targetRefs", "other", "no such Gateway")
			requireAt(t, m, 200, "/")
		})
	m.Run("a Service is for waypoints", policy(`kind: Service, group: "", name: web`, ""),
		func(t *testing.T, m *livemesh.Mesh) {
			m.AwaitProblem("AuthorizationPolicy default/policy", "spec.targetRefs[0].kind", "waypoints")
			requireAt(t, m, 200, "/")
		})
	m.Run("a selector beside targetRefs", policy(public, `
selector: {matchLabels: {app: web}}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("AuthorizationPolicy default/policy", "spec.selector", "beside targetRefs")
		m.Await("the server refuses", func() bool { return client.Get("http://web/").Status == 403 })
		m.Await("the gateway does", func() bool { return gateway.Get("/").Body == "RBAC: access denied" })
	})
}

// TestTelemetryIsAttachedToAGateway has a Telemetry with targetRefs: the proxy of this Gateway
// writes the access log that it names, and all others write the mesh's.
func TestTelemetryIsAttachedToAGateway(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	const format = `logFormat: {labels: {path: "%%REQ(:PATH)%%", cluster: "%%UPSTREAM_CLUSTER_RAW%%"}}`
	m := livemesh.Start(t, meshWithLogs("[mesh]", fmt.Sprintf(`
- {name: mesh, envoyFileAccessLog: {path: %s, `+format+`}}
- {name: own, envoyFileAccessLog: {path: %s, `+format+`}}
`, file("mesh"), file("own")))+livemesh.File("base.yaml",
		gatewayWithPod("public"), gatewayWithPod("private"), livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080"), livemesh.Object("HTTPRoute web", `
parentRefs: [{name: public}, {name: private}]
rules: [{backendRefs: [{name: web, port: 80}]}]
`)))
	const called = " inbound|8080||"
	logged := func(log, path string) bool {
		return slices.Contains(pathsIn(t, file(log)), path+" outbound|80||web.default.svc.cluster.local")
	}
	gateways := []string{"public", "private"}
	for i, name := range gateways {
		its, others := m.Gateway(name+"-istio", 8080), m.Gateway(gateways[1-i]+"-istio", 8080)
		m.Run(name, telemetryFor("one", `
targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: `+name+`}]
accessLogging: [{providers: [{name: own}]}]
`), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			m.Await("the new listeners are used", func() bool {
				requireStatus(t, 200, its.Get("/new/its/"+name))
				requireStatus(t, 200, others.Get("/new/others/"+name))
				return logged("own", "/new/its/"+name) && logged("mesh", "/new/others/"+name)
			})
			requireStatus(t, 200, its.Get("/its/"+name))
			requireStatus(t, 200, others.Get("/others/"+name))
			m.Await("each gateway has written its line, and so has who is called", func() bool {
				return logged("own", "/its/"+name) && logged("mesh", "/others/"+name) &&
					slices.Contains(pathsIn(t, file("mesh")), "/its/"+name+called)
			})
			require.False(t, logged("mesh", "/its/"+name), "its log stands in place of the mesh's")
			require.False(t, logged("own", "/others/"+name))
			require.NotContains(t, pathsIn(t, file("own")), "/its/"+name+called)
		})
	}
}

// gatewayWithPod is a Gateway of the Gateway API that listens at port 8080, and its workload.
func gatewayWithPod(name string) string {
	return strings.NewReplacer("istio-ingress", name+"-istio", "istio: ingress", model.GatewayNameLabel+": "+name).
		Replace(livemesh.GatewayPod(8080)) + livemesh.Object(kubernetesGateway+" "+name, `
gatewayClassName: istio
listeners: [{name: any, port: 8080, protocol: HTTP}]
`)
}
