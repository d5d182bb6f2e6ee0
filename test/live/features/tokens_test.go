package features

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// signer signs tokens of an issuer.
type signer struct {
	t      testing.TB
	issuer string
	id     string
	key    *ecdsa.PrivateKey
}

func newSigner(t testing.TB, issuer string) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &signer{t, issuer, "key of " + issuer, key}
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keys is the set of public keys.
func (s *signer) keys() string {
	point, err := s.key.PublicKey.Bytes()
	require.NoError(s.t, err)
	return fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":%q,"x":%q,"y":%q}]}`,
		s.id, base64url(point[1:33]), base64url(point[33:]))
}

// claims are those of a token beside its issuer. A later one replaces an earlier one.
type claims map[string]any

// token is a signed token of the subject "me".
func (s *signer) token(more ...claims) string {
	all := claims{"iss": s.issuer, "sub": "me", "exp": time.Now().Add(time.Hour).Unix()}
	for _, one := range more {
		for k, v := range one {
			all[k] = v
		}
	}
	head, err := json.Marshal(map[string]string{"alg": "ES256", "typ": "JWT", "kid": s.id})
	require.NoError(s.t, err)
	body, err := json.Marshal(all)
	require.NoError(s.t, err)
	text := base64url(head) + "." + base64url(body)
	digest := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, digest[:])
	require.NoError(s.t, err)
	signature := make([]byte, 2*crypto.SHA256.Size())
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return text + "." + base64url(signature)
}

func bearer(token string) livemesh.Option { return livemesh.Header("authorization", "Bearer "+token) }

// tokenRule is a rule with inline keys, as one line of YAML.
func tokenRule(s *signer, more string) string {
	return fmt.Sprintf("{issuer: %q, jwks: '%s'%s}", s.issuer, s.keys(), more)
}

// authentication is a RequestAuthentication for the workload of an app.
func authentication(name, app string, rules ...string) string {
	spec := "selector: {matchLabels: {app: " + app + "}}\njwtRules:\n"
	for _, r := range rules {
		spec += "- " + r + "\n"
	}
	return livemesh.Object("RequestAuthentication "+name, spec)
}

// tokenGateway is a gateway that routes to a workload.
func tokenGateway() string {
	return livemesh.GatewayPod(8080) + livemesh.Object("Gateway public", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [web.test]
`) + livemesh.Object("VirtualService public", `
hosts: [web.test]
gateways: [public]
http:
- route: [{destination: {host: valid}}]
`) + livemesh.Object("AuthorizationPolicy gateway", `
selector: {matchLabels: {istio: ingress}}
rules: [{from: [{source: {requestPrincipals: ["https://a.test/*"]}}]}]
`)
}

const tokenConditions = `
selector: {matchLabels: {app: conditions}}
rules:
- from: [{source: {requestPrincipals: ["https://a.test/me"]}}]
  to: [{operation: {paths: ["/principal"]}}]
- to: [{operation: {paths: ["/any"]}}]
  from: [{source: {requestPrincipals: ["*"]}}]
- to: [{operation: {paths: ["/none"]}}]
  from: [{source: {notRequestPrincipals: ["*"]}}]
- to: [{operation: {paths: ["/issuer"]}}]
  when: [{key: request.auth.principal, values: ["https://b.test/*"]}]
- to: [{operation: {paths: ["/audience"]}}]
  when: [{key: request.auth.audiences, values: [web]}]
- to: [{operation: {paths: ["/presenter"]}}]
  when: [{key: request.auth.presenter, values: ["cli*"]}]
- to: [{operation: {paths: ["/claim"]}}]
  when: [{key: "request.auth.claims[groups]", values: [admins]}]
- to: [{operation: {paths: ["/nested"]}}]
  when: [{key: "request.auth.claims[org][name]", values: ["*-inc"], notValues: [evil-inc]}]
- to: [{operation: {paths: ["/scope"]}}]
  when: [{key: "request.auth.claims[scope]", values: [read]}]
- to: [{operation: {paths: ["/not-issuer"]}}]
  when: [{key: request.auth.principal, notValues: ["https://b.test/*"]}]
- to: [{operation: {paths: ["/not-audience"]}}]
  when: [{key: request.auth.audiences, notValues: [web]}]
- to: [{operation: {paths: ["/not-presenter"]}}]
  when: [{key: request.auth.presenter, notValues: ["cli*"]}]
- to: [{operation: {paths: ["/not-claim"]}}]
  when: [{key: "request.auth.claims[groups]", notValues: [admins]}]
- to: [{operation: {paths: ["/words"]}}]
  when: [{key: "request.auth.claims[roles]", values: [read]}]
`

// TestTokensDecideAsDocumented sends tokens to workloads and a gateway, each with policies of its
// own from the start.
func TestTokensDecideAsDocumented(t *testing.T) {
	a, b, other := newSigner(t, "https://a.test"), newSigner(t, "https://b.test"), newSigner(t, "https://a.test")
	parts := []any{livemesh.NewEcho("client", "v1"), tokenGateway()}
	for _, app := range []string{"valid", "places", "several", "mistake", "unreadable", "conditions"} {
		parts = append(parts, livemesh.NewEcho(app, "v1"), livemesh.Service(app, "http:80:8080"))
	}
	parts = append(parts,
		authentication("valid", "valid", tokenRule(a, ", audiences: [web, api]")),
		authentication("places", "places", tokenRule(a, `, fromHeaders: [{name: x-token, prefix: "T "}], `+
			`fromParams: [t], fromCookies: [c], forwardOriginalToken: true, outputPayloadToHeader: x-payload, `+
			`outputClaimToHeaders: [{header: x-group, claim: group}, {header: x-org, claim: org.name}]`)),
		authentication("several", "several", tokenRule(a, "")),
		authentication("istio-system/several", "several", tokenRule(b, "")),
		authentication("x", "several", tokenRule(newSigner(t, "https://x.test"), ", fromHeaders: [{name: x-token}]")),
		authentication("mistake", "mistake", `{issuer: "https://a.test", jwks: '{"keys":[]}'}`),
		authentication("conditions", "conditions", tokenRule(a, ", spaceDelimitedClaims: [roles]"), tokenRule(b, "")),
		livemesh.Object("AuthorizationPolicy conditions", tokenConditions),
		livemesh.Object("RequestAuthentication gateway", "selector: {matchLabels: {istio: ingress}}\njwtRules: ["+
			tokenRule(a, ", forwardOriginalToken: true, fromHeaders: [{name: x-gateway}]")+"]"),
	)
	m := livemesh.Start(t, livemesh.File("mesh.yaml", parts...)+livemesh.File("bad.yaml",
		livemesh.Object("RequestAuthentication unreadable", "selector: {matchLabels: {app: unreadable}}\njwtRules: 7")))
	get := func(at string, options ...livemesh.Option) livemesh.Answer {
		return m.Client("client-v1").Get("http://"+at, options...)
	}
	header := livemesh.Header

	t.Run("a token has to be valid, and none is needed", func(t *testing.T) {
		audience := claims{"aud": "web"}
		assert.Equal(t, 200, get("valid/").Status, "no token")
		assert.Equal(t, 401, get("valid/", bearer("garbage")).Status)
		assert.Equal(t, 200, get("valid/", bearer(a.token(audience))).Status)
		assert.Equal(t, 200, get("valid/", bearer(a.token(claims{"aud": []string{"x", "api"}}))).Status)
		assert.Equal(t, 403, get("valid/", bearer(a.token(claims{"aud": "x"}))).Status, "another audience")
		assert.Equal(t, 403, get("valid/", bearer(a.token())).Status, "no audience")
		assert.Equal(t, 401, get("valid/", bearer(other.token(audience))).Status, "another key")
		assert.Equal(t, 401, get("valid/", bearer(b.token(audience))).Status, "another issuer")
		assert.Equal(t, 401, get("valid/", bearer(a.token(audience, claims{"exp": 1}))).Status, "expired")
		early := claims{"nbf": time.Now().Add(2 * time.Hour).Unix()}
		assert.Equal(t, 401, get("valid/", bearer(a.token(audience, early))).Status)
		assert.Equal(t, 200, get("valid/?access_token="+a.token(audience)).Status)
		assert.Equal(t, 401, get("valid/?access_token="+other.token(audience)).Status)
		echoed := get("valid/", bearer(a.token(audience))).Echoed
		assert.Empty(t, echoed.Headers.Get("authorization"), "the token ends here")
	})

	t.Run("where tokens are, and what becomes of them", func(t *testing.T) {
		token := a.token(claims{"group": "admins", "org": claims{"name": "inc"}})
		assert.Equal(t, 200, get("places/", bearer("garbage")).Status, "that is no place of a token")
		assert.Equal(t, 200, get("places/?t="+token).Status)
		assert.Equal(t, 401, get("places/?t=garbage").Status)
		assert.Equal(t, 200, get("places/", header("cookie", "c="+token)).Status)
		assert.Equal(t, 401, get("places/", header("cookie", "c=garbage")).Status)
		assert.Equal(t, 401, get("places/", header("x-token", "T garbage")).Status)
		answer := get("places/", header("x-token", "T "+token))
		require.Equal(t, 200, answer.Status)
		seen := answer.Echoed.Headers
		assert.Equal(t, "T "+token, seen.Get("x-token"))
		assert.Equal(t, "admins", seen.Get("x-group"))
		assert.Equal(t, "inc", seen.Get("x-org"))
		payload, err := base64.RawURLEncoding.DecodeString(seen.Get("x-payload"))
		require.NoError(t, err)
		assert.Contains(t, string(payload), `"sub":"me"`)
		forged := get("places/", header("x-group", "admins"), header("x-payload", "e30"), header("x-org", "inc"))
		require.Equal(t, 200, forged.Status)
		for _, name := range []string{"x-group", "x-payload", "x-org"} {
			assert.Empty(t, forged.Echoed.Headers.Get(name), "nobody but the proxy sets %s", name)
		}
	})

	t.Run("several issuers in several policies", func(t *testing.T) {
		assert.Equal(t, 200, get("several/").Status)
		assert.Equal(t, 200, get("several/", bearer(a.token())).Status)
		assert.Equal(t, 200, get("several/", bearer(b.token())).Status, "of the policy for the mesh")
		assert.Equal(t, 401, get("several/", bearer(other.token())).Status)
		assert.Equal(t, 401, get("several/", bearer(newSigner(t, "https://c.test").token())).Status)
		assert.Equal(t, 401, get("several/", header("x-token", "garbage")).Status)
		assert.Equal(t, 401, get("several/", bearer(a.token()), header("x-token", other.token())).Status,
			"a valid token does not hide one that is not")
		assert.Equal(t, 401, get("several/?access_token="+other.token(), bearer(a.token())).Status)
	})

	t.Run("a mistake refuses tokens, and no more", func(t *testing.T) {
		m.AwaitProblem("RequestAuthentication default/mistake", "spec.jwtRules[0].jwks")
		assert.Equal(t, 401, get("mistake/", bearer(a.token())).Status)
		assert.Equal(t, 200, get("mistake/").Status)
	})

	t.Run("a policy that cannot be read refuses requests", func(t *testing.T) {
		m.AwaitProblem("RequestAuthentication default/unreadable")
		assert.Equal(t, 403, get("unreadable/").Status)
		assert.Equal(t, 403, get("unreadable/", bearer(a.token())).Status)
	})

	t.Run("conditions", func(t *testing.T) {
		for _, c := range []struct {
			path, token string
			allowed     bool
		}{
			{"/principal", a.token(), true},
			{"/principal", b.token(), false},
			{"/principal", "", false},
			{"/principal", a.token(claims{"sub": "you"}), false},
			{"/any", a.token(), true},
			{"/any", b.token(), true},
			{"/any", "", false},
			{"/none", "", true},
			{"/none", a.token(), false},
			{"/issuer", b.token(), true},
			{"/issuer", a.token(), false},
			{"/audience", a.token(claims{"aud": "web"}), true},
			{"/audience", a.token(claims{"aud": []string{"x", "web"}}), true},
			{"/audience", a.token(claims{"aud": "x"}), false},
			{"/audience", a.token(), false},
			{"/presenter", a.token(claims{"azp": "client"}), true},
			{"/presenter", a.token(), false},
			{"/claim", a.token(claims{"groups": []string{"users", "admins"}}), true},
			{"/claim", a.token(claims{"groups": "admins"}), true},
			{"/claim", a.token(claims{"groups": "users"}), false},
			{"/nested", a.token(claims{"org": claims{"name": "my-inc"}}), true},
			{"/nested", a.token(claims{"org": claims{"name": []string{"my-inc"}}}), true},
			{"/nested", a.token(claims{"org": claims{"name": "evil-inc"}}), false},
			{"/nested", a.token(claims{"org.name": "my-inc"}), false},
			{"/scope", a.token(claims{"scope": "write read"}), true},
			{"/scope", a.token(claims{"scope": "write reads"}), false},
			{"/not-issuer", a.token(), true},
			{"/not-issuer", b.token(), false},
			{"/not-issuer", "", true},
			{"/not-audience", a.token(claims{"aud": []string{"x", "y"}}), true},
			{"/not-audience", a.token(claims{"aud": []string{"x", "web"}}), false},
			{"/not-audience", "", true},
			{"/not-presenter", a.token(claims{"azp": "other"}), true},
			{"/not-presenter", a.token(claims{"azp": "client"}), false},
			{"/not-presenter", a.token(), true},
			{"/not-claim", a.token(claims{"groups": []string{"users"}}), true},
			{"/not-claim", a.token(claims{"groups": []string{"users", "admins"}}), false},
			{"/not-claim", a.token(claims{"groups": "admins"}), false},
			{"/not-claim", "", true},
			{"/words", a.token(claims{"roles": "write read"}), true},
			{"/words", b.token(claims{"roles": "write read"}), false},
		} {
			var options []livemesh.Option
			if c.token != "" {
				options = append(options, bearer(c.token))
			}
			want := 403
			if c.allowed {
				want = 200
			}
			assert.Equal(t, want, get("conditions"+c.path, options...).Status, "%s with %q", c.path, c.token)
		}
	})

	t.Run("a gateway", func(t *testing.T) {
		gateway := m.Gateway("istio-ingress", 8080)
		public := func(options ...livemesh.Option) livemesh.Answer {
			return gateway.Get("/", append(options, livemesh.Host("web.test"))...)
		}
		assert.Equal(t, 403, public().Status)
		assert.Equal(t, 403, public(bearer(a.token())).Status, "that is no place of a token for the gateway")
		assert.Equal(t, 401, public(header("x-gateway", other.token())).Status)
		token := a.token()
		answer := public(header("x-gateway", token))
		require.Equal(t, 200, answer.Status, "%s", answer)
		assert.Equal(t, token, answer.Echoed.Headers.Get("x-gateway"))
	})
}
