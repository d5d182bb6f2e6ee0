package features

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// olderEnvoy has Envoys state a release that gets no lists of filters as resources of their own.
const olderEnvoy = "node: {user_agent_build_version: {version: {major_number: 1, minor_number: 39}}}\n"

// TestPoliciesDecideWithinListeners sends requests to an Envoy that gets its filters of requests as
// parts of its listeners. They decide in the same order as in a list: an authorizer, tokens, DENY
// and ALLOW.
func TestPoliciesDecideWithinListeners(t *testing.T) {
	guard, tokens := newHTTPAuthorizer(t), newSigner(t, "https://a.test")
	denies := func(path string) string {
		return portPolicy("denies", "DENY", `{paths: ["`+path+`"]}`)
	}
	m := livemesh.StartWith(t, livemesh.Options{Bootstrap: olderEnvoy}, livemesh.File("istio.yaml", guardConfig)+
		livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"),
			livemesh.Service("web", "http:80:8080"), guard.entry("guard.test"),
			custom("asks", "guard", `to: [{operation: {paths: ["/asked/*"]}}]`),
			authentication("tokens", "web", tokenRule(tokens, "")),
			livemesh.Object("AuthorizationPolicy allows", `
selector: {matchLabels: {app: web}}
rules:
- to: [{operation: {paths: ["/open/*", "/asked/*"]}}]
- to: [{operation: {paths: ["/token/*"]}}]
  from: [{source: {requestPrincipals: ["https://a.test/me"]}}]
`))+livemesh.File("denies.yaml", denies("*/never")))
	m.RequireNoProblems()
	proxy := m.Proxy("web-v1")
	require.Equal(t, serve.Release{Major: 1, Minor: 39}, proxy.Node.Release)
	require.False(t, proxy.Types[resource.Filter].Subscribed)

	valid := bearer(tokens.token())
	client := m.Client("client-v1")
	get := func(path string, options ...livemesh.Option) int {
		return client.Get("http://web.default"+path, options...).Status
	}
	assert.Equal(t, http.StatusOK, get("/open/x"))
	assert.Equal(t, http.StatusForbidden, get("/open/never"), "DENY decides before ALLOW")
	assert.Equal(t, http.StatusForbidden, get("/x"), "no ALLOW names it")

	assert.Equal(t, http.StatusOK, get("/asked/x"))
	assert.Equal(t, http.StatusPaymentRequired, get("/asked/denied"), "as the authorizer answers")
	assert.Equal(t, http.StatusForbidden, get("/asked/never"), "DENY decides behind an authorizer that accepts")
	assert.Equal(t, 1, guard.count("/asked/never"))
	assert.Zero(t, guard.count("/open/x"))

	assert.Equal(t, http.StatusForbidden, get("/token/x"), "without a token")
	assert.Equal(t, http.StatusUnauthorized, get("/token/x", bearer("garbage")))
	assert.Equal(t, http.StatusOK, get("/token/x", valid))
	assert.Equal(t, http.StatusForbidden, get("/token/never", valid))

	m.Write("denies.yaml", denies("/open/x"))
	m.Settle()
	m.Await("the new listener is used", func() bool { return get("/open/x") == http.StatusForbidden })
	m.Await("and the old one no more", func() bool { return get("/open/never") == http.StatusOK })
}
