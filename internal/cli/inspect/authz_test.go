package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

const authzManifests = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: deny-admin, namespace: shop}
spec:
  action: DENY
  rules:
  - to: [{operation: {methods: [POST]}}]
  - to: [{operation: {paths: [/admin]}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: allow-shop, namespace: istio-system}
spec:
  selector: {matchLabels: {app: web}}
  rules: [{from: [{source: {namespaces: [shop]}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: other, namespace: shop}
spec: {selector: {matchLabels: {app: db}}, rules: []}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: shop}
spec: {mtls: {mode: STRICT}}
`

// checked runs lateen authz check on manifests.
func checked(t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(authzManifests), 0o600))
	return output(t, nil, func(out *terminal.Writer, r *remote.Remote) *cobra.Command { return authzCommand(out, r) },
		append([]string{"check", "-f", dir}, args...)...)
}

// TestAuthzCheckReadsManifests: with the outcome as its exit code, and a line for each rule.
func TestAuthzCheckReadsManifests(t *testing.T) {
	out, err := checked(t, "web.shop", "--from", "shop/cart", "--path", "/admin?a=b")
	require.Equal(t, command.ExitCode(exitDenied), err, out)
	require.Equal(t, lines(
		"denied (403) by AuthorizationPolicy shop/deny-admin: rule 1 matches",
		"POLICY                   ACTION  RULE  RESULT",
		"istio-system/allow-shop  ALLOW   0     matches",
		`shop/deny-admin          DENY    0     to[0].operation.methods: want "POST", is "GET"`,
		"shop/deny-admin          DENY    1     matches",
		"shop/other               ALLOW   -     is for other workloads (app=db)",
		`the path is compared as "/admin" (pathNormalization)`), out)

	out, err = checked(t, "web.shop", "--from", "shop/cart")
	require.NoError(t, err, out)
	require.Contains(t, out, "allowed by AuthorizationPolicy istio-system/allow-shop: rule 0 matches")
	out, err = checked(t, "web.shop", "--from", "ops/tool")
	require.Equal(t, command.ExitCode(exitDenied), err, out)
	require.Contains(t, out, `from[0].source.namespaces: want "shop", is "ops"`)
	out, err = checked(t, "web.shop")
	require.Equal(t, command.ExitCode(exitDenied), err, out)
	require.Contains(t, out, "by PeerAuthentication shop/strict: mode STRICT refuses calls in plaintext")
	_, err = checked(t, "nobody.shop")
	require.ErrorContains(t, err, `workload "nobody" of namespace "shop" is not known to the mesh`)

	out, err = checked(t, "web.shop", "--from", "shop/cart", "--tcp", "-o", "json")
	require.Equal(t, command.ExitCode(exitDenied), err, out)
	var answer page.AuthzAnswer
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, policy.Denied, answer.Outcome)
	require.Equal(t, "deny-admin", answer.By.Name)
}

// TestAuthzCheckAsksTheControlPlane with all that the flags say of the call.
func TestAuthzCheckAsksTheControlPlane(t *testing.T) {
	var asked policy.Call
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("namespace") != "default" || q.Get("workload") != "web" {
			http.Error(w, "is not known", http.StatusNotFound)
			return
		}
		if err := json.Unmarshal([]byte(q.Get("call")), &asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprint(w, `{"outcome": "asks", "providers": ["ext"], "reason": "it decides"}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	out, err := output(t, podsAt{"istiod-0": server.Listener.Addr().String()}, authzCommand, "check", "web",
		"--from", "old.test/ns/a/sa/b", "--ip", "10.0.0.1", "--port", "80", "--host", "web", "--header", "X-A=b=c",
		"--request-principal", "https://i/ann", "--claim", `groups=["a"]`, "--metadata", "f.x/k=v")
	require.Equal(t, command.ExitCode(exitAsks), err, out)
	require.Equal(t, "asks ext: it decides\n", out)
	require.Equal(t, "spiffe://old.test/ns/a/sa/b", asked.Identity)
	require.Equal(t, "10.0.0.1", asked.Remote.String())
	require.Equal(t, map[string]string{"x-a": "b=c"}, asked.Headers)
	require.Equal(t, map[string]any{"iss": "https://i", "sub": "ann", "groups": []any{"a"}}, asked.Claims)
	require.Equal(t, map[string]map[string]any{"f.x": {"k": "v"}}, asked.Metadata)
}

const manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3." +
	"HttpConnectionManager"

// policedDump is a proxy with a filter of RBAC in its listener, and one that is delivered on its
// own.
const policedDump = `{"configs": [{
  "@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "virtualInbound",
  "trafficDirection": "INBOUND", "address": {"socketAddress": {"address": "0.0.0.0", "portValue": 15006}},
  "listenerFilters": [{"name": "envoy.filters.listener.original_dst"}],
  "filterChains": [
    {"name": "http", "filterChainMatch": {"destinationPort": 8080, "transportProtocol": "tls"},
      "transportSocket": {"name": "tls"},
      "filters": [{"name": "hcm", "typedConfig": {
        "@type": "` + manager + `",
        "normalizePath": true,
        "httpFilters": [
          {"name": "apart", "configDiscovery": {"typeUrls": ["x"]}},
          {"name": "theirs", "typedConfig": {"@type": "type.googleapis.com/their.Filter", "a": 1}}]}}]},
    {"name": "closed", "filters": [{"name": "tcp", "typedConfig": {
      "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
      "cluster": "BlackHoleCluster"}}]}]}]}`

const policedFilters = `{"configs": [{
  "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig", "name": "apart", "typedConfig": {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
    "rules": {"action": "DENY", "policies": {"ns[shop]-policy[p]-rule[1]": {
      "permissions": [{"urlPath": {"path": {"exact": "/admin"}}}],
      "principals": [{"authenticated": {"principalName": {"prefix": "spiffe://mesh.test/ns/ops/"}}}]}}}}}]}`

// TestAuthzCheckByAProxy decides by what a proxy was given: its listeners, and filters beside them.
func TestAuthzCheckByAProxy(t *testing.T) {
	mux := http.NewServeMux()
	for path, body := range map[string]string{
		"/debug/syncz": `[{"proxy": "web-0.shop"}]`, "/debug/problems": `[]`,
		"/debug/mesh":        `{"TrustDomain": "mesh.test"}`,
		"/debug/config_dump": policedDump, "/debug/ecdsz": policedFilters,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) })
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	cluster := podsAt{"istiod-0": server.Listener.Addr().String()}
	check := func(args ...string) (string, error) {
		args = append([]string{"check", "--proxy", "web-0", "--port", "8080"}, args...)
		return output(t, cluster, authzCommand, args...)
	}
	out, err := check("--from", "ops/tool", "--path", "/x/../admin")
	require.Equal(t, command.ExitCode(exitDenied), err, out)
	require.Contains(t, out, "denied (403) by AuthorizationPolicy shop/p: rule ns[shop]-policy[p]-rule[1] matches")
	require.Contains(t, out, "the call comes to the filter chain virtualInbound http")
	out, err = check("--from", "shop/web", "--path", "/admin")
	require.NoError(t, err, out)
	require.Contains(t, out, `principals[0]: want "{\"authenticated\"`)
	out, err = check()
	require.Equal(t, command.ExitCode(exitDenied), err, out)
	require.Contains(t, out, "denied (the connection is closed): the filter chain leads nowhere")
	_, err = check("web.shop")
	require.ErrorContains(t, err, "one argument too many")
}
