package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/envoyfilter"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// patchingFilter is an EnvoyFilter with one patch: "target | match | operation | value".
func patchingFilter(t *testing.T, name, patch string) *model.EnvoyFilter {
	t.Helper()
	parts := strings.Split(patch, " | ")
	require.Len(t, parts, 4, patch)
	text, err := yaml.YAMLToJSON(fmt.Appendf(nil,
		"configPatches: [{applyTo: %s, match: {%s}, patch: {operation: %s, %s}}]",
		parts[0], parts[1], parts[2], parts[3]))
	require.NoError(t, err)
	spec := &networking.EnvoyFilter{}
	require.NoError(t, protojson.Unmarshal(text, spec))
	patches, problems := envoyfilter.Read(spec, false)
	require.Empty(t, problems, patch)
	f := &model.EnvoyFilter{Meta: aloneMeta(kinds.EnvoyFilter, name), Patches: patches}
	f.Calls = envoyfilter.Calls(spec)
	return f
}

const (
	aloneBuffer = `typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, ` +
		`max_request_bytes: %d}`
	inHCM = "filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.%s}}"
)

func aloneFilter(name string, limit int) string {
	return fmt.Sprintf("value: {name: "+name+", "+aloneBuffer+"}", limit)
}

// patchedSidecar is a sidecar that takes the requests of its workload, and has ports of its own.
func patchedSidecar() scope.Proxy {
	p := proxyAt(0)
	p.Labels, p.Settings.Intercepted = model.LabelsOf(map[string]string{"app": "web"}), true
	p.Stating.Version = "1.30.0"
	return p
}

func patchedServices() []model.Object {
	web := aloneService("web", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP},
		model.ServicePort{Name: "more", Port: 81, Protocol: model.HTTP})
	web.Selector = model.LabelsOf(map[string]string{"app": "web"})
	g, v := aloneGateway(8080, model.HTTP)
	v.HTTP = []*model.HTTPRoute{{
		Name: "named", Destinations: []model.Destination{{Host: web.Host, Port: 80, Weight: 1}},
	}}
	return []model.Object{web, g, v, &model.Workload{
		Meta: aloneMeta(kinds.Pod, "p0"), Labels: web.Selector, Addresses: []string{"10.0.0.1"}, Node: "n",
	}}
}

// One part of a patch changes alone, and a proxy follows. Random lives hardly ever bring these.
func TestOnePartOfAPatchChanges(t *testing.T) {
	const timeout = "MERGE | value: {connect_timeout: 3s}"
	const headers = "MERGE | value: {response_headers_to_remove: [x]}"
	limited, router := "INSERT_BEFORE | "+aloneFilter("a", 1), fmt.Sprintf(inHCM, "router")
	const host = "vhost: {name: 'web.default.svc.cluster.local:80'"
	outbound := func(chain string) string {
		return "HTTP_FILTER | context: SIDECAR_OUTBOUND, listener: {filterChain: {" + chain + "}} | " + limited
	}
	for name, patches := range map[string][2]string{
		"the side of calls": {
			"CLUSTER | context: SIDECAR_OUTBOUND | " + timeout, "CLUSTER | context: SIDECAR_INBOUND | " + timeout,
		},
		"the name of clusters": {
			"CLUSTER | cluster: {name: 'outbound|80||web.default.svc.cluster.local'} | " + timeout,
			"CLUSTER | cluster: {name: 'outbound|81||web.default.svc.cluster.local'} | " + timeout,
		},
		"the port of clusters": {
			"CLUSTER | cluster: {portNumber: 80} | " + timeout, "CLUSTER | cluster: {portNumber: 81} | " + timeout,
		},
		"the service of clusters": {
			"CLUSTER | context: SIDECAR_OUTBOUND, cluster: {service: web.default.svc.cluster.local} | " + timeout,
			"CLUSTER | context: SIDECAR_OUTBOUND, cluster: {service: other} | " + timeout,
		},
		"the subset of clusters": {
			"CLUSTER | context: SIDECAR_OUTBOUND, cluster: {portNumber: 80} | " + timeout,
			"CLUSTER | context: SIDECAR_OUTBOUND, cluster: {portNumber: 80, subset: v1} | " + timeout,
		},
		"the operation": {
			"CLUSTER | context: SIDECAR_OUTBOUND | " + timeout,
			"CLUSTER | context: SIDECAR_OUTBOUND | REMOVE | value: {connect_timeout: 3s}",
		},
		"the target": {"CLUSTER |  | REMOVE | ", "LISTENER |  | REMOVE | "},
		"the value":  {"CLUSTER |  | " + timeout, "CLUSTER |  | MERGE | value: {connect_timeout: 4s}"},
		"the version": {
			"CLUSTER | proxy: {proxyVersion: '^1'} | " + timeout,
			"CLUSTER | proxy: {proxyVersion: '^2'} | " + timeout,
		},
		"the metadata": {
			"CLUSTER | proxy: {proxyVersion: '^1'} | " + timeout,
			"CLUSTER | proxy: {proxyVersion: '^1', metadata: {A: b}} | " + timeout,
		},
		"the listener": {
			"LISTENER | listener: {name: virtualInbound} | REMOVE | ",
			"LISTENER | listener: {name: virtualOutbound} | REMOVE | ",
		},
		"the listener's port": {
			"HTTP_FILTER | listener: {portNumber: 80, filterChain: {" + router + "}} | " + limited,
			"HTTP_FILTER | listener: {portNumber: 79, filterChain: {" + router + "}} | " + limited,
		},
		"the filter of a listener": {
			"LISTENER_FILTER | listener: {listenerFilter: envoy.filters.listener.tls_inspector} | REMOVE | ",
			"LISTENER_FILTER | listener: {listenerFilter: envoy.filters.listener.http_inspector} | REMOVE | ",
		},
		"the chain":             {outbound(router), outbound("name: none, " + router)},
		"the place":             {outbound(router), outbound(fmt.Sprintf(inHCM, "fault"))},
		"the filter's name":     {outbound(router), strings.Replace(outbound(router), "name: a,", "name: b,", 1)},
		"the filter's settings": {outbound(router), strings.Replace(outbound(router), "bytes: 1", "bytes: 2", 1)},
		"the filter's class": {
			"HTTP_FILTER | context: SIDECAR_OUTBOUND | ADD | filterClass: AUTHN, " + aloneFilter("a", 1),
			"HTTP_FILTER | context: SIDECAR_OUTBOUND | ADD | filterClass: STATS, " + aloneFilter("a", 1),
		},
		"what is added": {
			"CLUSTER |  | ADD | value: {name: a, connect_timeout: 1s}",
			"CLUSTER |  | ADD | value: {name: b, connect_timeout: 1s}",
		},
		"the table": {
			"ROUTE_CONFIGURATION | routeConfiguration: {name: '80'} | " + headers,
			"ROUTE_CONFIGURATION | routeConfiguration: {name: '81'} | " + headers,
		},
		"the table's port": {
			"ROUTE_CONFIGURATION | routeConfiguration: {portNumber: 80} | " + headers,
			"ROUTE_CONFIGURATION | routeConfiguration: {portNumber: 79} | " + headers,
		},
		"the table's name": {
			"ROUTE_CONFIGURATION | context: GATEWAY | " + headers,
			"ROUTE_CONFIGURATION | context: GATEWAY, routeConfiguration: {portName: none} | " + headers,
		},
		"the table's Gateway": {
			"ROUTE_CONFIGURATION | context: GATEWAY | " + headers,
			"ROUTE_CONFIGURATION | context: GATEWAY, routeConfiguration: {gateway: no/no} | " + headers,
		},
		"the virtual host": {
			"VIRTUAL_HOST | routeConfiguration: {" + host + "}} | " + headers,
			"VIRTUAL_HOST | routeConfiguration: {vhost: {name: 'web.default.svc.cluster.local:81'}} | " + headers,
		},
		"the domain": {
			"VIRTUAL_HOST |  | " + headers,
			"VIRTUAL_HOST | routeConfiguration: {vhost: {domainName: none}} | " + headers,
		},
		"the route": {
			"HTTP_ROUTE | routeConfiguration: {" + host + "}} | " + headers,
			"HTTP_ROUTE | routeConfiguration: {" + host + ", route: {name: none}}} | " + headers,
		},
		"the route's name": {
			"HTTP_ROUTE | routeConfiguration: {" + host + ", route: {name: default}}} | " + headers,
			"HTTP_ROUTE | routeConfiguration: {" + host + ", route: {name: none}}} | " + headers,
		},
		"the route's action": {
			"HTTP_ROUTE | routeConfiguration: {" + host + ", route: {action: ROUTE}}} | " + headers,
			"HTTP_ROUTE | routeConfiguration: {" + host + ", route: {action: REDIRECT}}} | " + headers,
		},
		"an added virtual host": {
			"VIRTUAL_HOST |  | ADD | value: {name: a, domains: [a]}",
			"VIRTUAL_HOST |  | ADD | value: {name: a, domains: [b]}",
		},
		"what a gateway calls": {
			"HTTP_FILTER | context: GATEWAY | ADD | " + aloneFilter("'outbound|80||web.default.svc.cluster.local'", 1),
			"HTTP_FILTER | context: GATEWAY | ADD | " + aloneFilter("a", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := patchingFilter(t, "f", patches[0]), patchingFilter(t, "f", patches[1])
			p := patchedSidecar()
			if strings.Contains(patches[0]+patches[1], "GATEWAY") {
				p = gatewayProxy()
			}
			requireFollows(t, p, [][]model.Object{append(patchedServices(), was), {is}, {was}})
		})
	}
}

// The order of two EnvoyFilters changes alone.
func TestTheOrderOfPatchesChanges(t *testing.T) {
	of := func(name string, priority int32) *model.EnvoyFilter {
		f := patchingFilter(t, name, "HTTP_FILTER | context: SIDECAR_OUTBOUND | INSERT_FIRST | "+aloneFilter(name, 1))
		f.Priority = priority
		return f
	}
	requireFollows(t, patchedSidecar(), [][]model.Object{
		append(patchedServices(), of("a", 0), of("b", 0)), {of("a", 1)}, {of("a", 0)},
	})
}

// A Gateway comes whose server shares the table of another one's, by another port. Patches that
// match by this port are then for virtual hosts of the other one too.
func TestAGatewayRenumbersATable(t *testing.T) {
	ingress := aloneService("ingress", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080})
	ingress.Selector = gatewayLabels
	more, _ := aloneGateway(80, model.HTTP)
	more.Name, more.Servers[0].Hosts[0].Host = "more", "b.com"
	before := append(patchedServices(), ingress, gatewayPod(), patchingFilter(t, "f",
		"VIRTUAL_HOST | context: GATEWAY, routeConfiguration: {portNumber: 80} | "+
			"MERGE | value: {response_headers_to_remove: [x]}"))
	requireFollowsUpdates(t, gatewayProxy(), [][]state.Update{
		updatesOf(before), updatesOf([]model.Object{more}), {{Key: more.Key()}},
	})
}

// An EnvoyFilter is for proxies of its own namespace, and in the root namespace for all.
func TestAnEnvoyFilterIsForItsNamespace(t *testing.T) {
	with := func(namespace string) map[string]resource.Version {
		f := patchingFilter(t, "f", "CLUSTER |  | MERGE | value: {connect_timeout: 3s}")
		f.Namespace = namespace
		w := state.NewWriter()
		w.Apply(updatesOf(append(patchedServices(), f)))
		return dump(placeIn(t, w.Snapshot(), patchedSidecar()).state)
	}
	require.NotEqual(t, with("another"), with("default"))
	require.Equal(t, with("default"), with(model.DefaultMesh().RootNamespace))
	require.Equal(t, with("another"), with("yet-another"))
}
