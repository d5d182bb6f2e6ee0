package features

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// authorizerFields are fields of external authorizers. Each line is one of extensionProviders: its
// name, by what it is asked, and its fields. It is asked about paths below its name. Those whose
// name begins with "gateway-" are asked by the gateway, and the others by the server.
const authorizerFields = `
prefix      http pathPrefix: /check
headers     http includeRequestHeadersInCheck: [x-kept, "x-pre-*", "*-suf"]
added       http includeAdditionalHeadersInCheck: {x-added: mesh}
old         http includeHeadersInCheck: [x-old]
onward      http headersToUpstreamOnAllow: [x-us*]
answers     http headersToDownstreamOnAllow: [x-seen], headersToDownstreamOnDeny: [x-reason]
body        http includeRequestBodyInCheck: {maxRequestBytes: 8}
partial     http includeRequestBodyInCheck: {maxRequestBytes: 4, allowPartialMessage: true}
late        http timeout: 2s, statusOnError: "504"
late-open   http timeout: 2s, failOpen: true
grpc        grpc
text        grpc includeRequestBodyInCheck: {maxRequestBytes: 8}
bytes       grpc includeRequestBodyInCheck: {maxRequestBytes: 4, allowPartialMessage: true, packAsBytes: true}
grpc-late   grpc timeout: 2s, statusOnError: "504"
grpc-open   grpc timeout: 2s, failOpen: true
gateway-a   http headersToUpstreamOnAllow: [x-user]
gateway-b   http headersToUpstreamOnAllow: [x-user], clearRouteCache: true
gateway-c   grpc
gateway-d   grpc clearRouteCache: true
`

// metadataConditions are about what an authorizer by gRPC leaves.
const metadataConditions = `
selector: {matchLabels: {app: web}}
action: DENY
rules:
- to: [{operation: {ports: ["8080"], paths: ["*/never"]}}]
- to: [{operation: {ports: ["8080"], paths: [/grpc/user]}}]
  when: [{key: "experimental.envoy.filters.http.ext_authz[user]", values: [ann, "b*"]}]
- to: [{operation: {ports: ["8080"], paths: [/grpc/not-user]}}]
  when: [{key: "experimental.envoy.filters.http.ext_authz[user]", notValues: [ann, "b*"]}]
- to: [{operation: {ports: ["8080"], paths: [/grpc/group]}}]
  when: [{key: "experimental.envoy.filters.http.ext_authz[groups]", values: ["[of-ann]"]}]
- to: [{operation: {ports: ["8080"], paths: [/grpc/not-group]}}]
  when: [{key: "experimental.envoy.filters.http.ext_authz[groups]", notValues: ["[of-ann]"]}]
`

// authorizerMesh has the authorizers of authorizerFields, and a policy for each.
func authorizerMesh(t *testing.T, byHTTP *httpAuthorizer, grpcPort int) *livemesh.Mesh {
	t.Helper()
	providers, policies := "", ""
	for line := range strings.SplitSeq(strings.TrimSpace(authorizerFields), "\n") {
		name, rest, _ := strings.Cut(line, " ")
		by, fields, _ := strings.Cut(strings.TrimSpace(rest), " ")
		kind, at := "envoyExtAuthzHttp", "service: guard.test, port: 80"
		if by == "grpc" {
			kind, at = "envoyExtAuthzGrpc", fmt.Sprint("service: checker.test, port: ", grpcPort)
		}
		providers += fmt.Sprintf("    - {name: %s, %s: {%s}}\n", name, kind,
			strings.TrimSuffix(at+", "+strings.TrimSpace(fields), ", "))
		selector, ports := "app: web", `ports: ["8080"], `
		if strings.HasPrefix(name, "gateway-") {
			selector, ports = "istio: ingress", ""
		}
		policies += livemesh.Object("AuthorizationPolicy "+name, fmt.Sprintf(`
selector: {matchLabels: {%s}}
action: CUSTOM
provider: {name: %s}
rules: [{to: [{operation: {%spaths: ["/%[2]s/*"]}}]}]
`, selector, name, ports))
	}
	return livemesh.Start(t, livemesh.File("istio.yaml", "apiVersion: v1\nkind: ConfigMap\n"+
		"metadata: {name: istio, namespace: istio-system}\ndata:\n  mesh: |\n    extensionProviders:\n"+providers)+
		livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"),
			livemesh.Service("web", "http:80:8080"), byHTTP.entry("guard.test"), grpcEntry("checker", grpcPort),
			livemesh.GatewayPod(8080), livemesh.Object("Gateway public", `
selector: {istio: ingress}
servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: [public.test]}]
`), livemesh.Object("VirtualService public", `
hosts: [public.test]
gateways: [public]
http:
- match: [{headers: {x-user: {exact: ann}}}]
  directResponse: {status: 200, body: {string: for ann}}
- directResponse: {status: 200, body: {string: for anybody}}
`), policies, livemesh.Object("AuthorizationPolicy metadata", metadataConditions)))
}

// post sends a body.
func post(body string) livemesh.Option {
	return func(r *http.Request) {
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// TestEveryFieldOfAnAuthorizerIsInForce looks at what authorizers are asked, and at what becomes of
// their answers.
func TestEveryFieldOfAnAuthorizerIsInForce(t *testing.T) {
	byHTTP, byGRPC := newHTTPAuthorizer(t), newGRPCAuthorizer()
	m := authorizerMesh(t, byHTTP, serveChecks(t, byGRPC))
	m.RequireNoProblems()
	get := func(path string, options ...livemesh.Option) livemesh.Answer {
		return m.Client("client-v1").Get("http://web.default"+path, options...)
	}
	t.Run("questions by HTTP", func(t *testing.T) { questionsByHTTP(t, byHTTP, get) })
	t.Run("answers by HTTP", func(t *testing.T) { answersByHTTP(t, byHTTP, get) })
	t.Run("by gRPC", func(t *testing.T) { askedByGRPC(t, byGRPC, get) })
	t.Run("metadata", func(t *testing.T) { metadataDecides(t, get) })
	t.Run("what follows an answer", func(t *testing.T) {
		for _, of := range []string{"prefix", "answers", "body", "late-open", "grpc", "grpc-open", "free"} {
			assert.Equal(t, 403, get("/"+of+"/never").Status, "%s accepts what another policy denies", of)
		}
	})
	t.Run("who does not answer in time", func(t *testing.T) {
		for path, want := range map[string]int{
			"/late/slow": 504, "/late-open/slow": 200, "/grpc-late/slow": 504, "/grpc-open/slow": 200,
			"/late/x": 200, "/late-open/denied": 402, "/grpc-late/x": 200, "/grpc-open/denied": 429,
		} {
			assert.Equal(t, want, get(path).Status, path)
		}
	})
	t.Run("routes of a gateway", func(t *testing.T) {
		for path, want := range map[string]string{
			"/gateway-a/x": "for anybody", "/gateway-b/x": "for ann", "/gateway-c/x": "for anybody",
			"/gateway-d/x": "for ann", "/gateway-b/denied": "pay first", "/x": "for anybody",
		} {
			who := livemesh.Header("x-who", "ann")
			a := m.Gateway("istio-ingress", 8080).Get(path, livemesh.Host("public.test"), who)
			assert.Equal(t, want, a.Body, path)
		}
	})
}

type getter func(path string, options ...livemesh.Option) livemesh.Answer

func questionsByHTTP(t *testing.T, guard *httpAuthorizer, get getter) {
	requireStatus(t, 200, get("/prefix/x"))
	require.Equal(t, 1, guard.count("/check/prefix/x"))
	requireStatus(t, 402, get("/prefix/denied"))

	sent := []livemesh.Option{livemesh.Method(http.MethodPut)}
	for _, name := range []string{"x-kept", "x-pre-a", "a-suf", "x-old", "x-not", "x-added"} {
		sent = append(sent, livemesh.Header(name, "sent"))
	}
	requireStatus(t, 200, get("/headers/x", sent...))
	require.Equal(t, 1, guard.count("/headers/x"))
	asked := guard.requests("/headers/x")[0]
	assert.Equal(t, http.MethodPut, asked.Method)
	for name, want := range map[string]string{
		"x-kept": "sent", "x-pre-a": "sent", "a-suf": "sent", "x-added": "", "x-old": "", "x-not": "",
	} {
		assert.Equal(t, want, asked.Header.Get(name), name)
	}
	requireStatus(t, 200, get("/added/x", sent...))
	assert.Equal(t, []string{"mesh"}, guard.requests("/added/x")[0].Header.Values("x-added"))
	requireStatus(t, 200, get("/old/x", sent...))
	assert.Equal(t, "sent", guard.requests("/old/x")[0].Header.Get("x-old"))
	assert.Empty(t, guard.requests("/old/x")[0].Header.Get("x-kept"))

	requireStatus(t, 200, get("/body/x", post("12345678")))
	assert.Equal(t, "12345678", guard.body("/body/x"))
	requireStatus(t, 413, get("/body/long", post("123456789")))
	assert.Zero(t, guard.count("/body/long"))
	requireStatus(t, 200, get("/partial/x", post("12345678")))
	assert.Equal(t, "1234", guard.body("/partial/x"))
	requireStatus(t, 200, get("/old/body", post("12345678")))
	assert.Empty(t, guard.body("/old/body"))
}

func answersByHTTP(t *testing.T, guard *httpAuthorizer, get getter) {
	a := get("/onward/x", livemesh.Header("x-user", "forged"))
	requireStatus(t, 200, a)
	assert.Equal(t, []string{"ann"}, a.Echoed.Headers.Values("x-user"), "that of the authorizer replaces the client's")
	assert.Empty(t, a.Echoed.Headers.Get("x-other"))
	a = get("/answers/x")
	requireStatus(t, 200, a)
	assert.Empty(t, a.Echoed.Headers.Get("x-user"))
	assert.Empty(t, a.Echoed.Headers.Get("x-seen"))
	assert.Empty(t, a.Echoed.Headers.Get("x-other"))
	assert.Equal(t, "yes", a.Header.Get("x-seen"))
	assert.Empty(t, a.Header.Get("x-reason"))
	a = get("/answers/denied")
	requireStatus(t, 402, a)
	assert.Equal(t, "pay first", a.Body)
	assert.Equal(t, "money", a.Header.Get("x-reason"))
	assert.Empty(t, a.Header.Get("x-other"))
	assert.Equal(t, 1, guard.count("/answers/denied"))
	a = get("/old/x")
	assert.Empty(t, a.Echoed.Headers.Get("x-user"), "without a list nothing goes on")
	assert.Empty(t, a.Header.Get("x-seen"))
}

func askedByGRPC(t *testing.T, checker *grpcAuthorizer, get getter) {
	a := get("/grpc/x", livemesh.Header("x-who", "ann"), post("12345678"))
	requireStatus(t, 200, a)
	assert.Equal(t, "ann", a.Echoed.Headers.Get("x-user"))
	assert.Equal(t, http.MethodPost, checker.asked("/grpc/x").GetMethod())
	assert.Empty(t, checker.asked("/grpc/x").GetBody())
	a = get("/grpc/denied")
	requireStatus(t, 429, a)
	assert.Equal(t, "later", a.Body)
	assert.Equal(t, "quota", a.Header.Get("x-reason"))
	requireStatus(t, 200, get("/text/x", post("12345678")))
	assert.Equal(t, "12345678", checker.asked("/text/x").GetBody())
	requireStatus(t, 413, get("/text/long", post("123456789")))
	assert.Nil(t, checker.asked("/text/long"))
	requireStatus(t, 200, get("/bytes/x", post("\xff\xfe\x00345")))
	assert.Equal(t, []byte("\xff\xfe\x003"), checker.asked("/bytes/x").GetRawBody())
	assert.Empty(t, checker.asked("/bytes/x").GetBody())
}

// metadataDecides has conditions about what the authorizer left, which come behind it.
func metadataDecides(t *testing.T, get getter) {
	for _, c := range []struct {
		path, who string
		want      int
	}{
		{"/grpc/user", "ann", 403},
		{"/grpc/user", "bob", 403},
		{"/grpc/user", "carl", 200},
		{"/grpc/not-user", "ann", 200},
		{"/grpc/not-user", "bob", 200},
		{"/grpc/not-user", "carl", 403},
		{"/grpc/group", "ann", 403},
		{"/grpc/group", "bob", 200},
		{"/grpc/not-group", "ann", 200},
		{"/grpc/not-group", "bob", 403},
		{"/grpc/free", "ann", 200},
	} {
		assert.Equal(t, c.want, get(c.path, livemesh.Header("x-who", c.who)).Status, "%s by %s", c.path, c.who)
	}
}
