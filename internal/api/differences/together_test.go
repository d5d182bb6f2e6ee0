package differences_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/differences"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// together is what is found among objects of the namespace shop, the oldest first, as
// "kind/name path = value".
func together(t *testing.T, objects ...string) (found []string) {
	t.Helper()
	all := differences.Together{Root: "istio-system"}
	for _, text := range objects {
		reading := manifest.ReadFile("objects.yaml", []byte(text))
		require.Empty(t, reading.Problems, text)
		for _, d := range reading.Documents {
			all.Add(d.Object)
			if deployment, ok := d.Object.(*appsv1.Deployment); ok {
				all.AddWorkload(d.Key, "spec.template", &deployment.Spec.Template)
			}
		}
	}
	for _, p := range all.Found() {
		require.NotEmpty(t, p.Want)
		found = append(found, string(p.Object.Kind)+"/"+p.Object.Name+" "+p.Path+" = "+p.Value)
	}
	return found
}

// object is one of the namespace shop, made on a day of May.
func object(day, kind, name, rest string) string {
	api := map[string]string{"Service": "v1", "ConfigMap": "v1", "Deployment": "apps/v1",
		"AuthorizationPolicy": "security.istio.io/v1"}[kind]
	if api == "" {
		api = "networking.istio.io/v1"
	}
	return "apiVersion: " + api + "\nkind: " + kind + "\nmetadata: {name: " + name +
		", namespace: shop, creationTimestamp: \"2026-05-" + day + "T00:00:00Z\"}\n" + rest + "\n---\n"
}

func TestEntriesForTheHostOfAServiceAreTold(t *testing.T) {
	entry := func(host string) string {
		return object("02", "ServiceEntry", "more", "spec: {hosts: ["+host+"], ports: [{number: 80, name: http, "+
			"protocol: HTTP}], resolution: STATIC, endpoints: [{address: 192.0.2.1}]}")
	}
	service := object("01", "Service", "web", "spec: {ports: [{name: http, port: 80}]}")
	require.Equal(t, []string{"ServiceEntry/more spec.hosts[0] = web.shop.svc.cluster.local"},
		together(t, service, entry("web.shop.svc.cluster.local")))
	require.Empty(t, together(t, service, entry("web.other.svc.cluster.local")))
}

func TestNamesOutsideOfTheMeshAreTold(t *testing.T) {
	service := func(name string) string {
		return object("01", "Service", "api", "spec: {type: ExternalName, externalName: "+name+", ports: [{port: 80}]}")
	}
	require.Equal(t, []string{"Service/api spec.externalName = api.test"}, together(t, service("api.test")))
	require.Empty(t, together(t, service("web.shop.svc.cluster.local"), object("01", "Service", "web",
		"spec: {ports: [{port: 80}]}")))
	require.Empty(t, together(t, service("api.test"), object("01", "ServiceEntry", "api",
		"spec: {hosts: [api.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}")))
}

func TestRulesForDifferentCallersAreTold(t *testing.T) {
	rule := func(day, name, spec string) string {
		return object(day, "DestinationRule", name, "spec: {host: web, "+spec+"}")
	}
	require.Equal(t, []string{"DestinationRule/b spec.exportTo = ."},
		together(t, rule("01", "a", "exportTo: ['*']"), rule("02", "b", "exportTo: [.]")))
	require.Empty(t, together(t, rule("01", "a", "exportTo: [a, b]"), rule("02", "b", "exportTo: [b, a]"),
		rule("03", "c", "exportTo: [.], workloadSelector: {matchLabels: {app: a}}")))
}

func TestAuthorizersThatAreAskedByHTTPAreTold(t *testing.T) {
	const mesh = `data: {mesh: "extensionProviders: [{name: web, envoyExtAuthzHttp: {service: a.test, port: 80}}, ` +
		`{name: grpc, envoyExtAuthzGrpc: {service: a.test, port: 81}}]"}`
	policy := func(provider string) string {
		return object("01", "AuthorizationPolicy", "ask",
			"spec: {action: CUSTOM, provider: {name: "+provider+"}, rules: [{}]}")
	}
	config := object("01", "ConfigMap", "istio", mesh)
	require.Equal(t, []string{"AuthorizationPolicy/ask spec.provider.name = web"}, together(t, config, policy("web")))
	require.Empty(t, together(t, config, policy("grpc")))
}

func TestPortsOfNoServiceWithConditionsOnRequestsAreTold(t *testing.T) {
	const web = `spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: ` +
		`{containers: [{name: web, image: web, ports: [{containerPort: 8080, name: http}, {containerPort: 9090}]}]}}}`
	deployment := object("01", "Deployment", "web", web)
	service := object("01", "Service", "web",
		"spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}")
	policy := func(rule string) string {
		return object("01", "AuthorizationPolicy", "some",
			"spec: {selector: {matchLabels: {app: web}}, rules: ["+rule+"]}")
	}
	require.Equal(t, []string{"Deployment/web spec.template.spec.containers[0].ports[1].containerPort = 9090"},
		together(t, deployment, service, policy("{to: [{operation: {methods: [GET]}}]}")))
	require.Empty(t, together(t, deployment, service, policy("{to: [{operation: {ports: ['9090']}}]}")))
	require.Empty(t, together(t, deployment, service,
		strings.Replace(policy("{to: [{operation: {methods: [GET]}}]}"), "app: web", "app: b", 1)))
	inRoot := strings.Replace(policy("{when: [{key: 'request.headers[a]', values: [b]}]}"), "namespace: shop",
		"namespace: istio-system", 1)
	require.Len(t, together(t, deployment, service, inRoot), 1)
}

func entry(namespace, name string, change func(*networking.ServiceEntry)) *networkingv1.ServiceEntry {
	e := &networkingv1.ServiceEntry{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Spec.Hosts = []string{"api.test"}
	change(&e.Spec)
	return e
}

func TestEntriesOfOneHostHaveToAgree(t *testing.T) {
	same := func(*networking.ServiceEntry) {}
	selecting := func(e *networking.ServiceEntry) {
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": "a"}}
	}
	var agreeing differences.Together
	agreeing.Add(entry("default", "a", same))
	agreeing.Add(entry("default", "b", same))
	agreeing.Add(entry("other", "c", selecting))
	require.Empty(t, agreeing.Found())
	for _, differs := range []func(*networking.ServiceEntry){
		selecting,
		func(e *networking.ServiceEntry) { e.Resolution = networking.ServiceEntry_DNS },
		func(e *networking.ServiceEntry) { e.Location = networking.ServiceEntry_MESH_INTERNAL },
		func(e *networking.ServiceEntry) { e.ExportTo = []string{"."} },
		func(e *networking.ServiceEntry) { e.SubjectAltNames = []string{"b.test"} },
	} {
		var all differences.Together
		all.Add(entry("default", "a", same))
		all.Add(entry("default", "b", differs))
		found := all.Found()
		require.Len(t, found, 1)
		require.Equal(t, "b", found[0].Object.Name)
		require.Contains(t, found[0].Message, "default/a")
	}
}
