package app

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// What an operator's dashboard shows of the mesh follows it, up and down.
func TestMetricsOfTheMeshFollowIt(t *testing.T) {
	r := newRig(t, nil)
	whole := changesOf(t, meshOfMistakes)
	before := r.metrics()
	r.deliver(whole...)
	r.connect(cart)
	r.settle()

	now := r.metrics()
	for name, want := range map[string]float64{
		"pilot_services":                       5,
		"pilot_virt_services":                  2,
		"pilot_destrule_subsets":               2,
		"pilot_eds_no_instances":               4,
		"pilot_endpoint_not_ready":             1,
		"endpoint_no_pod":                      1,
		"pilot_k8s_endpoints_pending_pod":      1,
		"pilot_k8s_endpoints_with_no_pods":     1,
		"pilot_vservice_dup_domain":            1,
		"pilot_duplicate_envoy_clusters":       1,
		"pilot_conflict_inbound_listener":      1,
		`pilot_total_rejected_configs`:         1,
		"lateen_classes":                       1,
		"pilot_pushcontext_init_seconds":       before["pilot_pushcontext_init_seconds"] + 1,
		"pilot_debounce_time":                  before["pilot_debounce_time"] + 1,
		`pilot_push_triggers{type="config"}`:   1,
		`pilot_push_triggers{type="service"}`:  1,
		`pilot_push_triggers{type="endpoint"}`: 1,
		`pilot_inbound_updates{type="svc"}`:    6,
		`pilot_inbound_updates{type="config"}`: 4,
	} {
		require.InDelta(t, want, now[name], 0, name)
	}
	require.Positive(t, now[`lateen_class_config_bytes{type="cds"}`])
	largest := now[`lateen_class_config_largest_bytes{type="cds"}`]
	require.InDelta(t, now[`lateen_class_config_bytes{type="cds"}`], largest, 0, "there is one class")

	var gone []source.Change
	for _, c := range whole {
		gone = append(gone, source.Change{Key: c.Key})
	}
	r.deliver(gone...)
	r.settle()
	now = r.metrics()
	for _, name := range []string{
		"pilot_services", "pilot_virt_services", "pilot_destrule_subsets", "pilot_eds_no_instances",
		"pilot_endpoint_not_ready", "endpoint_no_pod", "pilot_k8s_endpoints_pending_pod", "pilot_vservice_dup_domain",
		"pilot_duplicate_envoy_clusters", "pilot_conflict_inbound_listener",
		`lateen_problems{severity="error"}`, `lateen_problems{severity="warning"}`,
	} {
		require.Zero(t, now[name], name)
	}
}

// How long an endpoint that is gone was still called is told apart from other changes.
func TestRemovedEndpointsAreTimed(t *testing.T) {
	r := newRig(t, changesOf(t, meshOfMistakes))
	r.connect(cart)
	r.settle()
	const endpoint = "{ addresses: [10.0.0.1], targetRef: { kind: Pod, name: cart, namespace: shop } }"
	slice := strings.Replace(meshOfMistakes, endpoint, "{ addresses: [10.0.0.9] }", 1)
	require.NotEqual(t, meshOfMistakes, slice)
	require.Zero(t, r.metrics()["lateen_endpoint_removal_seconds"])
	for _, c := range changesOf(t, slice) {
		if c.Key.Name == "cart-1" {
			r.deliver(c)
		}
	}
	r.settle()
	require.InDelta(t, 1, r.metrics()["lateen_endpoint_removal_seconds"], 0)
}

var cart = meshgen.Proxy{
	Namespace: "shop", Pod: "cart", Address: "10.0.0.1", Labels: map[string]string{"app": "cart"},
}

// meshOfMistakes has one of each mistake that a metric counts.
const meshOfMistakes = `
apiVersion: v1
kind: Pod
metadata: { name: cart, namespace: shop, labels: { app: cart } }
spec: { containers: [{ name: app, image: app }] }
status: { podIP: 10.0.0.1, phase: Running, conditions: [{ type: Ready, status: "True" }] }
---
apiVersion: v1
kind: Service
metadata: { name: cart, namespace: shop }
spec:
  selector: { app: cart }
  clusterIP: 10.1.0.1
  ports: [{ name: http, port: 80, targetPort: 8080 }]
---
apiVersion: v1
kind: Service
metadata: { name: cart-tcp, namespace: shop }
spec:
  selector: { app: cart }
  clusterIP: 10.1.0.2
  ports: [{ name: tcp, port: 81, targetPort: 8080 }]
---
apiVersion: v1
kind: Service
metadata: { name: idle, namespace: shop }
spec: { clusterIP: 10.1.0.3, ports: [{ name: http, port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: cart-1, namespace: shop, labels: { kubernetes.io/service-name: cart } }
addressType: IPv4
ports: [{ name: http, port: 8080 }]
endpoints:
- { addresses: [10.0.0.1], targetRef: { kind: Pod, name: cart, namespace: shop } }
- { addresses: [10.0.0.2], targetRef: { kind: Pod, name: unseen, namespace: shop } }
- { addresses: [10.0.0.3], targetRef: { kind: Pod, name: late, namespace: shop }, conditions: { ready: false } }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: first, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z" }
spec: { hosts: [a.test, b.test], resolution: NONE, ports: [{ name: http, number: 80, protocol: HTTP }] }
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: second, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z" }
spec: { hosts: [a.test], resolution: DNS, ports: [{ name: http, number: 80, protocol: HTTP }] }
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: { name: cart, namespace: shop }
spec: { host: cart, subsets: [{ name: v1, labels: { version: v1 } }, { name: v2, labels: { version: v2 } }] }
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: { name: first, namespace: shop }
spec: { hosts: [cart], http: [{ route: [{ destination: { host: cart } }] }] }
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: { name: second, namespace: shop }
spec: { hosts: [cart], http: [{ route: [{ destination: { host: cart } }] }] }
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: { name: broken, namespace: shop }
spec: { selector: { app: gw }, servers: [{ hosts: ["*"], port: { name: https, number: 443, protocol: HTTPS } }] }
`

func changesOf(t *testing.T, yaml string) (changes []source.Change) {
	t.Helper()
	docs, problems := manifest.Read("mesh.yaml", []byte(yaml))
	require.Empty(t, problems)
	for _, d := range docs {
		changes = append(changes, source.Change{Key: d.Key, Object: d.Object})
	}
	return changes
}

// metrics returns all series by name and labels; of a histogram the number of its observations. A
// metric with several series has their sum under its name.
func (r *rig) metrics() map[string]float64 {
	families, err := r.pipeline.gather()
	require.NoError(r.tb, err)
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			found[f.GetName()] += value
			if labels := labelsOf(m); labels != "" {
				found[f.GetName()+labels] = value
			}
		}
	}
	return found
}

func labelsOf(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+`="`+l.GetValue()+`"`)
	}
	if pairs == nil {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}
