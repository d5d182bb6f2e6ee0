package features

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminpage "github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// filtered is a case: what EnvoyFilters do to traffic.
type filtered struct {
	name    string
	objects string
	// want holds once the patched configuration is in use.
	want func(m *filterRig) bool
}

// filterObject is an EnvoyFilter of the workloads of an app; "" for all.
func filterObject(name, app, spec string) string {
	selector := ""
	if app != "" {
		selector = "workloadSelector: {labels: {app: " + app + "}}\n"
	}
	return livemesh.Object("EnvoyFilter "+name, selector+strings.TrimLeft(spec, "\n"))
}

// luaConfig is a Lua filter's configuration. Its script runs on requests or on answers.
func luaConfig(on, script string) string {
	return message(luaType, `default_source_code: {inline_string: "function envoy_on_`+on+"(handle) "+script+` end"}`)
}

// message is a configuration of a type with fields.
func message(typ, fields string) string {
	return `{"@type": type.googleapis.com/` + typ + ", " + fields + "}"
}

// lua is a filter that runs a script on requests or on answers.
func lua(on, script string) string {
	return "{name: lua, typed_config: " + luaConfig(on, script) + "}"
}

const (
	luaType   = "envoy.extensions.filters.http.lua.v3.Lua"
	hcmFilter = "envoy.filters.network.http_connection_manager"
	hcmType   = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)

// inRequests is the match of a place among the filters of requests.
func inRequests(context, place string) string {
	return "{context: " + context + ", listener: {filterChain: {filter: {name: " + hcmFilter +
		", subFilter: {name: " + place + "}}}}}"
}

// before is a patch that inserts a filter of requests in front of the router.
func before(context, value string) string {
	return patchOf("HTTP_FILTER", inRequests(context, "envoy.filters.http.router"), "INSERT_BEFORE", value)
}

func patchOf(target, match, operation, value string) string {
	patch := "{operation: " + operation
	if value != "" {
		patch += ", value: " + value
	}
	return "- {applyTo: " + target + ", match: " + match + ", patch: " + patch + "}}\n"
}

func patches(all ...string) string { return "configPatches:\n" + strings.Join(all, "") }

// answers has a header of an answer be as wanted, of a call from client to web.
func answers(name, value string) func(m *filterRig) bool {
	return func(m *filterRig) bool {
		return m.client.Get("http://web/").Header.Get(name) == value
	}
}

// sees has a header of a request be as wanted where web gets it.
func sees(name, value string) func(m *filterRig) bool {
	return func(m *filterRig) bool {
		return m.client.Get("http://web/").Echoed.Headers.Get(name) == value
	}
}

// hasStatus has a call from client get a status.
func hasStatus(status int, url string) func(m *filterRig) bool {
	return func(m *filterRig) bool { return m.client.Get(url).Status == status }
}

// filterRig is a mesh that filters are tried on, and who calls it.
type filterRig struct {
	*livemesh.Mesh
	client, gateway *livemesh.Client
}

func (m *filterRig) public() livemesh.Answer { return m.gateway.Get("/", livemesh.Host("public.test")) }

// awaitSoon waits until something holds.
func (m *filterRig) awaitSoon(what string, condition func(m *filterRig) bool) {
	m.Await(what, func() bool { return condition(m) })
}

func newFilterRig(t *testing.T, files string) *filterRig {
	m := livemesh.Start(t, files+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1").TCP(7000), livemesh.Service("web", "http:80:8080", "tcp:9000:7000"),
		livemesh.NewEcho("other", "v1"), livemesh.Service("other", "http:80:8080"),
		livemesh.GatewayPod(8080),
		livemesh.Object("Gateway public", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [public.test]
`),
		livemesh.Object("VirtualService public", `
hosts: [public.test]
gateways: [public]
http:
- name: all
  route: [{destination: {host: other}}]
`)))
	m.RequireNoProblems()
	return &filterRig{m, m.Client("client-v1"), m.Gateway("istio-ingress", 8080)}
}

// TestEnvoyFiltersChangeTraffic sends requests through real Envoys whose configuration is patched,
// and sees that each patch is gone again with its object.
func TestEnvoyFiltersChangeTraffic(t *testing.T) {
	m := newFilterRig(t, "")
	for _, c := range filterCases(t) {
		require.False(t, c.want(m), "%s: without the filter", c.name)
		m.Run(c.name, livemesh.File("filter.yaml", c.objects), func(*testing.T, *livemesh.Mesh) {
			m.RequireNoProblems()
			m.awaitSoon("the patched configuration is used", c.want)
		})
		m.Settle()
		m.awaitSoon("the patch is gone", func(m *filterRig) bool { return !c.want(m) })
	}
}

func filterCases(t *testing.T) []filtered {
	return slices.Concat(requestCases(), routeCases(), connectionCases(t), guardCases(), answerCases(t))
}

// requestCases are of filters of requests.
func requestCases() []filtered {
	header := func(value string) string { return "handle:headers():add('x-lua', '" + value + "')" }
	const limit = `
  name: envoy.filters.http.local_ratelimit
  typed_config:
    "@type": type.googleapis.com/udpa.type.v1.TypedStruct
    type_url: type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
    value:
      stat_prefix: http_local_rate_limiter
      token_bucket: {max_tokens: 2, tokens_per_fill: 2, fill_interval: 3600s}
      filter_enabled: {runtime_key: local_rate_limit_enabled, default_value: {numerator: 100, denominator: HUNDRED}}
      filter_enforced: {runtime_key: local_rate_limit_enforced, default_value: {numerator: 100, denominator: HUNDRED}}
`
	return []filtered{
		{"a Lua filter of a server", filterObject("f", "web", patches(
			before("SIDECAR_INBOUND", lua("response", header("web"))))), answers("x-lua", "web")},
		{"a Lua filter of a caller", filterObject("f", "client", patches(
			before("SIDECAR_OUTBOUND", lua("response", header("client"))))), answers("x-lua", "client")},
		{"a Lua filter of a gateway", filterObject("f", "", patches(
			before("GATEWAY", lua("response", header("gateway"))))), func(m *filterRig) bool {
			return m.public().Header.Get("x-lua") == "gateway"
		}},
		{"a filter of a gateway calls what no route leads to", filterObject("f", "", patches(before("GATEWAY",
			lua("response", "local answer = handle:httpCall('outbound|80||web.default.svc.cluster.local', "+
				"{[':method'] = 'GET', [':path'] = '/', [':authority'] = 'web'}, '', 5000) "+
				"handle:headers():add('x-lua', answer[':status'])")))), func(m *filterRig) bool {
			return m.public().Header.Get("x-lua") == "200"
		}},
		{"priorities order filters", filterObject("a", "web", "priority: 10\n"+patches(
			before("SIDECAR_INBOUND", "{name: lua.a, typed_config: "+luaConfig("request", header("a"))+"}"))) +
			filterObject("b", "web", "priority: -10\n"+patches(
				before("SIDECAR_INBOUND", "{name: lua.b, typed_config: "+luaConfig("request", header("b"))+"}"))),
			func(m *filterRig) bool {
				got := m.client.Get("http://web/").Echoed.Headers.Values("x-lua")
				return strings.Join(got, ",") == "b,a"
			}},
		{"filters without one list", filterObject("f", "web", patches(patchOf("HTTP_FILTER",
			"{context: SIDECAR_INBOUND, listener: {portNumber: 8080}}", "INSERT_FIRST",
			lua("response", header("port"))))), answers("x-lua", "port")},
		{"a local rate limit", filterObject("f", "web", "configPatches:\n- applyTo: HTTP_FILTER\n  match: "+
			inRequests("SIDECAR_INBOUND", "envoy.filters.http.router")+"\n  patch:\n    operation: INSERT_BEFORE\n"+
			"    value:"+strings.ReplaceAll(limit, "\n", "\n    ")),
			hasStatus(http.StatusTooManyRequests, "http://web/")},
		{"a fault", filterObject("f", "client", patches(before("SIDECAR_OUTBOUND",
			filterOf("fault", "HTTPFault", "abort: {http_status: 418, percentage: {numerator: 100}}")))),
			hasStatus(http.StatusTeapot, "http://web/")},
		{"a compressor", filterObject("f", "web", patches(before("SIDECAR_INBOUND",
			filterOf("compressor", "Compressor", "compressor_library: {name: gzip, typed_config: "+
				message("envoy.extensions.compression.gzip.compressor.v3.Gzip", "")+"}")))),
			func(m *filterRig) bool {
				a := m.client.Get("http://web/", livemesh.Header("Accept-Encoding", "gzip"))
				return a.Header.Get("Content-Encoding") == "gzip"
			}},
		{"a filter that travels apart", filterObject("f", "web", patches(
			"- {applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: apart, typed_config: "+
				luaConfig("response", header("apart"))+"}}}\n",
			before("SIDECAR_INBOUND", "{name: apart, config_discovery: {config_source: {ads: {}, "+
				"resource_api_version: V3}, type_urls: [type.googleapis.com/"+luaType+"]}}"))),
			answers("x-lua", "apart")},
		{"a filter in front of the policies' place", livemesh.Object("AuthorizationPolicy asks", `
selector: {matchLabels: {app: web}}
rules: [{when: [{key: "request.headers[x-lua]", values: [let]}]}]
`) + filterObject("f", "web", patches(patchOf("HTTP_FILTER", inRequests("SIDECAR_INBOUND", "envoy.filters.http.rbac"),
			"INSERT_BEFORE", lua("request", header("let"))))), sees("x-lua", "let")},
		{"a filter behind the policies' place", livemesh.Object("AuthorizationPolicy asks", `
selector: {matchLabels: {app: web}}
rules: [{when: [{key: "request.headers[x-lua]", values: [let]}]}]
`) + filterObject("f", "web", patches(patchOf("HTTP_FILTER", inRequests("SIDECAR_INBOUND", "envoy.filters.http.rbac"),
			"INSERT_AFTER", lua("request", header("let"))))), hasStatus(http.StatusForbidden, "http://web/")},
		{"proxies of a version", filterObject("f", "web", patches(before(
			"SIDECAR_INBOUND, proxy: {proxyVersion: 'never.*'}", lua("response", header("never"))),
			before("SIDECAR_INBOUND", lua("response", header("ever"))))),
			answers("x-lua", "ever")},
	}
}

// routeCases are of routes, tables and clusters.
func routeCases() []filtered {
	adds := func(name, value string) string {
		return "{response_headers_to_add: [{header: {key: " + name + ", value: " + value + "}}]}"
	}
	const table = "{context: SIDECAR_OUTBOUND, routeConfiguration: {name: http_proxy"
	const host = table + ", vhost: {name: 'web.default.svc.cluster.local:80'"
	return []filtered{
		{"a table of calls", filterObject("f", "client", patches(
			patchOf("ROUTE_CONFIGURATION", table+"}}", "MERGE", adds("x-table", "set")))), answers("x-table", "set")},
		{"a virtual host", filterObject("f", "client", patches(
			patchOf("VIRTUAL_HOST", host+"}}}", "MERGE", adds("x-host", "set")))), answers("x-host", "set")},
		{"a route", filterObject("f", "client", patches(
			patchOf("HTTP_ROUTE", host+", route: {action: ROUTE}}}}", "MERGE", adds("x-route", "set")))),
			answers("x-route", "set")},
		{"a route in front", filterObject("f", "client", patches(patchOf("HTTP_ROUTE", host+"}}}", "INSERT_FIRST",
			"{match: {prefix: /}, direct_response: {status: 418}}"))), hasStatus(http.StatusTeapot, "http://web/")},
		{"a route less", filterObject("f", "client", patches(patchOf("HTTP_ROUTE", host+"}}}", "REMOVE", ""))),
			hasStatus(http.StatusNotFound, "http://web/")},
		{"a virtual host more", filterObject("f", "client", patches(patchOf("VIRTUAL_HOST", table+"}}", "ADD",
			"{name: added, domains: [added.test], routes: [{match: {prefix: /}, direct_response: {status: 418}}]}"))),
			hasStatus(http.StatusTeapot, "http://added.test/")},
		{"a virtual host less", filterObject("f", "client", patches(patchOf("VIRTUAL_HOST", host+"}}}", "REMOVE", ""))),
			func(m *filterRig) bool { return m.client.Get("http://web/").Echoed.Hostname == "" }},
		{"routes of a server", filterObject("f", "web", patches(patchOf("HTTP_ROUTE", "{context: SIDECAR_INBOUND, "+
			"routeConfiguration: {vhost: {name: 'inbound|http|8080', route: {name: default}}}}", "MERGE",
			adds("x-inbound", "set")))), answers("x-inbound", "set")},
		{"routes of a gateway", filterObject("f", "", patches(patchOf("HTTP_ROUTE", "{context: GATEWAY, "+
			"routeConfiguration: {portNumber: 8080, vhost: {name: 'public.test:8080', route: {name: all}}}}", "MERGE",
			adds("x-gateway", "set")))), func(m *filterRig) bool {
			return m.public().Header.Get("x-gateway") == "set"
		}},
		{"a cluster less", filterObject("f", "client", patches(patchOf("CLUSTER", "{context: SIDECAR_OUTBOUND, "+
			"cluster: {service: web.default.svc.cluster.local, portNumber: 80}}", "REMOVE", ""))),
			hasStatus(http.StatusServiceUnavailable, "http://web/")},
		{"a cluster more, and a route to it", filterObject("f", "client", patches(
			clusterOfNobody("SIDECAR_OUTBOUND"),
			patchOf("HTTP_ROUTE", host+"}}}", "INSERT_FIRST", "{match: {prefix: /}, route: {cluster: nobody}}"))),
			hasStatus(http.StatusServiceUnavailable, "http://web/")},
		{"TLS to an application that has none", filterObject("f", "web", patches(patchOf("CLUSTER",
			"{context: SIDECAR_INBOUND, cluster: {portNumber: 8080}}", "MERGE",
			"{transport_socket: {name: envoy.transport_sockets.tls, typed_config: "+
				message("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", "")+"}}"))),
			hasStatus(http.StatusServiceUnavailable, "http://web/")},
	}
}

// connectionCases are of listeners, and of what is in them beside filters of requests.
func connectionCases(t *testing.T) []filtered {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := listener.Addr().String()
	require.NoError(t, listener.Close())
	host, port, err := net.SplitHostPort(free)
	require.NoError(t, err)
	const inbound = "{context: SIDECAR_INBOUND, listener: {portNumber: 7000}}"
	answering := message(hcmType, "stat_prefix: added, http_filters: [{name: router, typed_config: "+
		message("envoy.extensions.filters.http.router.v3.Router", "")+"}], route_config: {virtual_hosts: [{name: all, "+
		`domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 418}}]}]}`)
	return []filtered{
		{"the name of a server", filterObject("f", "client", patches(inManager("SIDECAR_OUTBOUND",
			"server_name: patched, server_header_transformation: OVERWRITE"))), answers("server", "patched")},
		{"connections that a filter refuses", filterObject("f", "web", patches(patchOf("NETWORK_FILTER", inbound,
			"INSERT_FIRST", "{name: envoy.filters.network.rbac, typed_config: "+message(
				"envoy.extensions.filters.network.rbac.v3.RBAC", "stat_prefix: none, rules: {action: ALLOW}")+"}"))),
			func(m *filterRig) bool {
				_, err := line(m.Mesh, "client-v1", 9000, "hello")
				return err != nil
			}},
		{"a filter of a listener", filterObject("f", "", patches(patchOf("LISTENER_FILTER", "{context: GATEWAY}",
			"INSERT_FIRST", "{name: envoy.filters.listener.proxy_protocol, typed_config: "+message(
				"envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol", "")+"}"))),
			func(m *filterRig) bool {
				return m.public().Status == 0
			}},
		{"a listener without chains", filterObject("f", "web", patches(patchOf("FILTER_CHAIN", inbound, "REMOVE", ""))),
			func(m *filterRig) bool {
				_, err := line(m.Mesh, "client-v1", 9000, "hello")
				return err != nil
			}},
		{"a listener more", filterObject("f", "client", patches(patchOf("LISTENER",
			"{context: SIDECAR_OUTBOUND}", "ADD",
			fmt.Sprintf("{name: added, address: {socket_address: {address: %q, port_value: %s}}, filter_chains: "+
				"[{filters: [{name: %s, typed_config: %s}]}]}", host, port, hcmFilter, answering)))),
			func(*filterRig) bool {
				answer, err := http.Get("http://" + free) //nolint:noctx // ends with the test
				if err != nil {
					return false
				}
				_ = answer.Body.Close()
				return answer.StatusCode == http.StatusTeapot
			}},
	}
}

// TestAnEditedFilterDrainsNothing: a filter of requests that a patch adds is a resource of its own.
// Its edits change no listener, so that connections stay.
func TestAnEditedFilterDrainsNothing(t *testing.T) {
	filter := func(value string) string {
		return filterObject("f", "web", patches(
			before("SIDECAR_INBOUND", lua("response", "handle:headers():add('x-lua', '"+value+"')"))))
	}
	m := newFilterRig(t, livemesh.File("filter.yaml", filter("first")))
	m.awaitSoon("the filter is used", answers("x-lua", "first"))
	stats := func() string {
		return m.Admin("web-v1", "/stats?filter=listener_manager.listener_(added|modified|in_place_updated|removed)$")
	}
	load := m.client.Load("http://web/")
	load.Advance(3)
	before := stats()
	for _, value := range []string{"second", "third"} {
		m.Write("filter.yaml", filter(value))
		m.Settle()
		m.awaitSoon("the edit is used", answers("x-lua", value))
	}
	require.Equal(t, before, stats(), "no listener has changed")
	require.Contains(t, before, "listener_manager.listener_added")
	load.Advance(3)
	load.Stop()
}

// TestEnvoyFiltersSayWhatTheyDo: each patch is counted for the proxies that have what it matches,
// one that matches nothing is told, and the configuration is shown without the object and with it.
func TestEnvoyFiltersSayWhatTheyDo(t *testing.T) {
	m := newFilterRig(t, "")
	m.Run("two patches", livemesh.File("filter.yaml", filterObject("f", "web", patches(
		before("SIDECAR_INBOUND", lua("response", "handle:headers():add('x-lua', 'web')")),
		patchOf("CLUSTER", "{cluster: {service: none.test}}", "MERGE", "{connect_timeout: 3s}"),
	))), func(t *testing.T, _ *livemesh.Mesh) {
		m.awaitSoon("the filter is used", answers("x-lua", "web"))
		m.AwaitProblem("EnvoyFilter default/f", "spec.configPatches[1].match", "matches nothing")
		matched := func(metric, patch string) int {
			return int(m.Metric(metric, map[string]string{"namespace": "default", "name": "f", "patch": patch}))
		}
		require.Positive(t, matched("lateen_patch_resources", "0"))
		require.Zero(t, matched("lateen_patch_resources", "1"))

		var effects adminpage.PatchEffects
		body := m.Monitoring("/debug/patchz?kind=EnvoyFilter&namespace=default&name=f")
		require.NoError(t, json.Unmarshal([]byte(body), &effects))
		require.Len(t, effects.Patches, 2)
		require.Equal(t, matched("lateen_patch_proxies", "0"), effects.Patches[0].Proxies)
		require.Zero(t, effects.Patches[1].Proxies)
		require.Positive(t, effects.Patches[1].Selected)
		require.NotEmpty(t, effects.Effects)
		require.Contains(t, effects.Effects[0].Proxy, "web-v1")
		for _, c := range effects.Effects[0].Changes {
			require.NotContains(t, c.Without, `"lua"`)
			require.Contains(t, c.With, `"lua"`)
		}
		require.Len(t, effects.Problems, 1)
	})
	m.Settle()
	require.Empty(t, m.ProblemsWith("matches nothing"))
}

// TestAFilterThatIsRefusedIsLeftOutAlone: a mistake that is seen when the object is read, and one
// that only an Envoy sees. Neither keeps anything else from a proxy.
func TestAFilterThatIsRefusedIsLeftOutAlone(t *testing.T) {
	m := newFilterRig(t, "")
	good := before("SIDECAR_INBOUND", "{name: good, typed_config: "+
		luaConfig("response", "handle:headers():add('x-lua', 'good')")+"}")
	m.Run("a value without a configuration", livemesh.File("filter.yaml", filterObject("f", "web",
		patches(before("SIDECAR_INBOUND", "{name: bad, typed_config: {'@type': type.googleapis.com/no.such.Type}}"),
			good))), func(*testing.T, *livemesh.Mesh) {
		m.AwaitProblem("EnvoyFilter default/f", "spec.configPatches[0].patch.value")
		m.awaitSoon("the other patch is used", answers("x-lua", "good"))
	})
	bad := before("SIDECAR_INBOUND", "{name: bad, typed_config: "+luaConfig("response", "this is no Lua")+"}")
	m.Run("a script that Envoy cannot read", livemesh.File("filter.yaml", filterObject("f", "web", patches(bad, good))),
		func(t *testing.T, _ *livemesh.Mesh) {
			requireRefused(t, m.Mesh, "web-v1", resource.Filter, "bad", "script load error")
			m.awaitSoon("the other patch is used", answers("x-lua", "good"))
			requireStatus(t, http.StatusOK, m.client.Get("http://web/"))
			m.Write("filter.yaml", filterObject("f", "web", patches(bad, good, before("SIDECAR_INBOUND",
				"{name: later, typed_config: "+luaConfig("response", "handle:headers():add('x-later', 'set')")+"}"))))
			m.awaitSoon("the listener that names it still changes", answers("x-later", "set"))
		})
	protecting := func(value string) string {
		annotated := fmt.Sprintf("metadata: {annotations: {%s: \"true\"}, ", kinds.ProtectsAnnotation)
		object := filterObject("f", "web", patches(before("SIDECAR_INBOUND", value)))
		return strings.Replace(object, "metadata: {", annotated, 1)
	}
	for name, config := range map[string]string{
		"unread": luaConfig("response", "no Lua"), "mistaken": message("no.such.Type", ""),
	} {
		value := "{name: " + name + ", typed_config: " + config + "}"
		file := livemesh.File("filter.yaml", protecting(value))
		m.Run("what protects closes: "+name, file, func(t *testing.T, _ *livemesh.Mesh) {
			m.awaitSoon("nobody passes", hasStatus(http.StatusForbidden, "http://web/"))
			requireStatus(t, http.StatusOK, m.client.Get("http://other/"))
		})
	}
	m.Run("a guard that Envoy cannot read closes", livemesh.File("filter.yaml", filterObject("f", "web", patches(
		before("SIDECAR_INBOUND", "{name: bad, typed_config: "+message(
			"envoy.extensions.filters.http.basic_auth.v3.BasicAuth", "users: {inline_string: garbage}")+"}")))),
		func(t *testing.T, _ *livemesh.Mesh) {
			m.awaitSoon("nobody passes", hasStatus(http.StatusForbidden, "http://web/"))
			requireStatus(t, http.StatusOK, m.client.Get("http://other/"))
		})
}
