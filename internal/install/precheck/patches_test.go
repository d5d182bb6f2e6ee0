package precheck

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
)

const patchedEstate = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: app}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: fine, namespace: shop}
spec:
  configPatches:
  - {applyTo: CLUSTER, match: {cluster: {service: web.shop.svc.cluster.local}},
     patch: {operation: MERGE, value: {connect_timeout: 3s}}}
---
apiVersion: v1
kind: Service
metadata: {name: lines, namespace: shop}
spec: {clusterIP: None, selector: {app: lines}, ports: [{name: tcp, port: 3306}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: edge, namespace: shop}
spec:
  template:
    metadata: {labels: {app: edge}, annotations: {inject.istio.io/templates: gateway}}
    spec: {containers: [{name: istio-proxy, image: auto}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {app: edge}
  servers:
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: [a.test], tls: {mode: SIMPLE, credentialName: a}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: as-well, namespace: shop}
spec:
  configPatches:
  - {applyTo: NETWORK_FILTER, match: {context: GATEWAY, listener: {portNumber: 443}},
     patch: {operation: MERGE, value: {name: envoy.filters.network.http_connection_manager, typed_config: {
       "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
       server_name: a}}}}
  - {applyTo: LISTENER, match: {context: SIDECAR_OUTBOUND, listener: {portNumber: 3306}},
     patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 1000}}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: stale, namespace: shop}
spec:
  workloadSelector: {labels: {app: web}}
  configPatches:
  - {applyTo: CLUSTER, match: {cluster: {name: outbound|80||web.old.svc.cluster.local}},
     patch: {operation: MERGE, value: {connect_timeout: 3s}}}
  - applyTo: HTTP_FILTER
    match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager,
            subFilter: {name: envoy.filters.http.grpc_stats}}}}}
    patch: {operation: REMOVE}
  - {applyTo: VIRTUAL_HOST, match: {routeConfiguration: {vhost: {name: "web.shop.svc.cluster.local:8080"}}},
     patch: {operation: MERGE, value: {request_headers_to_remove: [x]}}}
  - {applyTo: LISTENER, match: {listener: {portNumber: 9999}},
     patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 1000}}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: for-nobody, namespace: shop}
spec:
  workloadSelector: {labels: {app: other}}
  configPatches:
  - {applyTo: CLUSTER, match: {cluster: {name: none}}, patch: {operation: MERGE, value: {connect_timeout: 3s}}}
`

// TestPatchesThatMatchNothingAreWarnedOf: the workloads of the estate would have proxies, and what
// these would get is known. What has the most like name is told.
func TestPatchesThatMatchNothingAreWarnedOf(t *testing.T) {
	injector, err := inject.New(inject.Options{Namespace: "istio-system"}, inject.Texts{
		Values: `{"global": {"proxy": {"image": "example.com/proxy:1"}}}`,
	})
	require.NoError(t, err)
	checker, _ := New("istio-system", nil)
	var verdicts []Verdict
	for document := range strings.SplitSeq(patchedEstate, "---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		if o.GetKind() == "Deployment" {
			_, ok := checker.Workload(injector, o, map[string]string{"istio-injection": "enabled"})
			require.True(t, ok)
			continue
		}
		verdicts = append(verdicts, checker.Check(o))
	}
	checker.Compare(verdicts)
	var got []string
	for _, v := range verdicts {
		require.True(t, v.Go(), "%+v", v)
		for _, w := range v.Warnings {
			got = append(got, fmt.Sprintf("%s: %s = %s: %s", v.Object(), w.Field, w.Value, w.Why))
		}
	}
	const nothing = "matches nothing that the proxies of the workloads it is for (1) get; want what they have, as "
	require.Equal(t, []string{
		"EnvoyFilter shop/stale: spec.configPatches[0].match.cluster.name = outbound|80||web.old.svc.cluster.local: " +
			nothing + "outbound|80||web.shop.svc.cluster.local, outbound|3306||lines.shop.svc.cluster.local",
		"EnvoyFilter shop/stale: spec.configPatches[1].match.listener.filterChain.filter.subFilter.name = " +
			"envoy.filters.http.grpc_stats: " + nothing +
			"envoy.filters.http.cors, envoy.filters.http.fault, envoy.filters.http.router",
		"EnvoyFilter shop/stale: spec.configPatches[2].match.routeConfiguration.vhost.name = " +
			"web.shop.svc.cluster.local:8080: " + nothing + "web.shop.svc.cluster.local:80",
		"EnvoyFilter shop/stale: spec.configPatches[3].match.listener.portNumber = 9999: matches nothing that the " +
			"proxies of the workloads it is for (1) get; want what they have: lateen proxy-config shows it",
	}, got)
}
