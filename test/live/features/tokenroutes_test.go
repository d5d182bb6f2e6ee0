package features

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRoutesMatchClaimsOfVerifiedTokens sends tokens to a gateway whose routes ask for claims.
func TestRoutesMatchClaimsOfVerifiedTokens(t *testing.T) {
	a, other := newSigner(t, "https://a.test"), newSigner(t, "https://a.test")
	parts := []any{livemesh.GatewayPod(8080), livemesh.Object("Gateway public", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [web.test, strict.test]
`), livemesh.Object("VirtualService web", `
hosts: [web.test]
gateways: [public]
http:
- match: [{headers: {"@request.auth.claims.group": {exact: admins}}}]
  route: [{destination: {host: admins}}]
- match: [{headers: {"@request.auth.claims[org.unit][name]": {prefix: sea}}}]
  route: [{destination: {host: unit}}]
- match: [{withoutHeaders: {"@request.auth.claims.sub": {}}}]
  route: [{destination: {host: anonymous}}]
- route: [{destination: {host: rest}}]
`), livemesh.Object("VirtualService strict", `
hosts: [strict.test]
gateways: [public]
http:
- match: [{headers: {"@request.auth.claims.group": {regex: "adm.*"}}}]
  route: [{destination: {host: admins}}]
`), livemesh.Object("RequestAuthentication gateway", "selector: {matchLabels: {istio: ingress}}\njwtRules: ["+
		tokenRule(a, "")+"]")}
	for _, app := range []string{"admins", "unit", "anonymous", "rest"} {
		parts = append(parts, livemesh.NewEcho(app, app), livemesh.Service(app, "http:80:8080"))
	}
	m := livemesh.Start(t, livemesh.File("mesh.yaml", parts...))
	m.RequireNoProblems()
	get := func(host string, options ...livemesh.Option) livemesh.Answer {
		return m.Gateway("istio-ingress", 8080).Get("/", append(options, livemesh.Host(host))...)
	}
	for _, c := range []struct {
		token, want string
	}{
		{"", "anonymous"},
		{a.token(), "rest"},
		{a.token(claims{"group": "admins"}), "admins"},
		{a.token(claims{"group": []string{"users", "admins"}}), "admins"},
		{a.token(claims{"group": "admin"}), "rest"},
		{a.token(claims{"org.unit": claims{"name": "seaside"}}), "unit"},
		{a.token(claims{"org": claims{"unit": claims{"name": "seaside"}}}), "rest"},
	} {
		var options []livemesh.Option
		if c.token != "" {
			options = append(options, bearer(c.token))
		}
		assert.Equal(t, c.want, get("web.test", options...).Echoed.Version, c.token)
	}
	assert.Equal(t, 401, get("web.test", bearer(other.token(claims{"group": "admins"}))).Status)
	assert.Equal(t, 404, get("strict.test").Status, "no route takes it")
	assert.Equal(t, 404, get("strict.test", bearer(a.token())).Status)
	assert.Equal(t, "admins", get("strict.test", bearer(a.token(claims{"group": "admins"}))).Echoed.Version)
}
