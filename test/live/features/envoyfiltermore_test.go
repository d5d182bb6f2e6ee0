package features

import (
	"crypto/sha1" //nolint:gosec // the only form of a password that Envoy's basic_auth reads
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

const httpFilters = "envoy.extensions.filters.http."

// filterOf is a filter of requests of Envoy's, with fields.
func filterOf(kind, typ, fields string) string {
	return "{name: envoy.filters.http." + kind + ", typed_config: " + message(httpFilters+kind+".v3."+typ, fields) + "}"
}

// inManager merges fields into the connection manager of a side of calls.
func inManager(context, fields string) string {
	return patchOf("NETWORK_FILTER", "{context: "+context+", listener: {filterChain: {filter: {name: "+hcmFilter+"}}}}",
		"MERGE", "{name: "+hcmFilter+", typed_config: "+message(hcmType, fields)+"}")
}

// clusterOfNobody adds the cluster nobody, which has no endpoints.
func clusterOfNobody(context string) string {
	return patchOf("CLUSTER", "{context: "+context+"}", "ADD",
		"{name: nobody, type: STATIC, connect_timeout: 1s, load_assignment: {cluster_name: nobody}}")
}

// guardCases are of filters that refuse requests.
func guardCases() []filtered {
	sum := sha1.Sum([]byte("open sesame"))
	user := "ali:{SHA}" + base64.StdEncoding.EncodeToString(sum[:])
	const keys = `{"keys":[{"kty":"oct","kid":"k","k":"c2VjcmV0"}]}`
	return []filtered{
		{"a password", filterObject("f", "web", patches(before("SIDECAR_INBOUND",
			filterOf("basic_auth", "BasicAuth", "users: {inline_string: '"+user+"'}")))),
			hasStatus(http.StatusUnauthorized, "http://web/")},
		{"a token that an inline key signs", filterObject("f", "web", patches(before("SIDECAR_INBOUND",
			filterOf("jwt_authn", "JwtAuthentication", "providers: {p: {issuer: i, local_jwks: {inline_string: '"+keys+
				"'}}}, rules: [{match: {prefix: /}, requires: {provider_name: p}}]")))),
			hasStatus(http.StatusUnauthorized, "http://web/")},
		{"an authorizer that nobody serves", filterObject("f", "web", patches(
			clusterOfNobody("SIDECAR_INBOUND"),
			before("SIDECAR_INBOUND", filterOf("ext_authz", "ExtAuthz",
				"http_service: {server_uri: {uri: 'http://nobody', cluster: nobody, timeout: 1s}}")))),
			hasStatus(http.StatusForbidden, "http://web/")},
		{"requests from other sites", filterObject("f", "web", patches(before("SIDECAR_INBOUND",
			filterOf("csrf", "CsrfPolicy", "filter_enabled: {default_value: {numerator: 100}}")))),
			func(m *filterRig) bool {
				post, elsewhere := livemesh.Method(http.MethodPost), livemesh.Header("Origin", "http://evil.test")
				return m.client.Get("http://web/", post, elsewhere).Status == http.StatusForbidden
			}},
		{"headers that are too large", filterObject("f", "web", patches(
			inManager("SIDECAR_INBOUND", "max_request_headers_kb: 1"))), func(m *filterRig) bool {
			a := m.client.Get("http://web/", livemesh.Header("X-Large", strings.Repeat("x", 4<<10)))
			return a.Status == http.StatusRequestHeaderFieldsTooLarge
		}},
		{"connections by their rate", filterObject("f", "web", patches(patchOf("NETWORK_FILTER",
			"{context: SIDECAR_INBOUND, listener: {portNumber: 7000}}", "INSERT_FIRST",
			"{name: envoy.filters.network.local_ratelimit, typed_config: "+message(
				"envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit", "stat_prefix: few, "+
					"token_bucket: {max_tokens: 1, tokens_per_fill: 1, fill_interval: 3600s}")+"}"))),
			func(m *filterRig) bool {
				_, err := line(m.Mesh, "client-v1", 9000, "hello")
				return err != nil
			}},
	}
}

// answerCases are of what becomes of requests and answers.
func answerCases(t *testing.T) []filtered {
	const host = "{context: SIDECAR_OUTBOUND, routeConfiguration: {name: http_proxy, " +
		"vhost: {name: 'web.default.svc.cluster.local:80'"
	log, seen := filepath.Join(t.TempDir(), "access.log"), 0
	return []filtered{
		{"a health check that the proxy answers", filterObject("f", "web", patches(before("SIDECAR_INBOUND",
			filterOf("health_check", "HealthCheck", "pass_through_mode: false, headers: [{name: ':path', "+
				"string_match: {exact: /healthy}}]")))), func(m *filterRig) bool {
			a := m.client.Get("http://web/healthy")
			return a.Status == http.StatusOK && a.Echoed.Hostname == ""
		}},
		{"headers that are changed", filterObject("f", "web", patches(before("SIDECAR_INBOUND",
			filterOf("header_mutation", "HeaderMutation", "mutations: {response_mutations: [{append: {header: "+
				"{key: x-mutation, value: set}}}]}")))), answers("x-mutation", "set")},
		{"a path that is rewritten", filterObject("f", "client", patches(patchOf("HTTP_ROUTE",
			host+", route: {action: ROUTE}}}}", "MERGE", "{route: {prefix_rewrite: /rewritten}}"))),
			func(m *filterRig) bool { return m.client.Get("http://web/").Echoed.Path == "/rewritten" }},
		{"a host that is rewritten", filterObject("f", "client", patches(patchOf("HTTP_ROUTE",
			host+", route: {action: ROUTE}}}}", "MERGE", "{route: {host_rewrite_literal: rewritten.test}}"))),
			func(m *filterRig) bool { return m.client.Get("http://web/").Echoed.Host == "rewritten.test" }},
		{"a header less", filterObject("f", "client", patches(patchOf("VIRTUAL_HOST", host+"}}}", "MERGE",
			"{request_headers_to_remove: [user-agent]}"))), func(m *filterRig) bool {
			a := m.client.Get("http://web/", livemesh.Header("User-Agent", "someone"))
			return a.OK() && a.Echoed.Headers.Get("User-Agent") == ""
		}},
		{"the proxy's own answers", filterObject("f", "client", patches(
			patchOf("HTTP_ROUTE", host+"}}}", "REMOVE", ""),
			inManager("SIDECAR_OUTBOUND", "local_reply_config: {mappers: [{filter: {status_code_filter: {comparison: "+
				"{op: EQ, value: {default_value: 404, runtime_key: none}}}}, status_code: 418}]}"))),
			hasStatus(http.StatusTeapot, "http://web/")},
		{"an access log of one's own", filterObject("f", "web", patches(inManager("SIDECAR_INBOUND",
			"access_log: [{name: own, typed_config: "+message("envoy.extensions.access_loggers.file.v3.FileAccessLog",
				"path: '"+log+"', log_format: {text_format_source: {inline_string: 'own %RESPONSE_CODE% '}}")+"}]"))),
			func(m *filterRig) bool {
				m.client.Get("http://web/")
				written, err := os.ReadFile(log) // Envoy writes to it every ten seconds
				grew := err == nil && strings.Contains(string(written[seen:]), "own 200")
				seen = len(written)
				return grew
			}},
	}
}
