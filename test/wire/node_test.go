package wire

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// node is what Istio's agent says of a sidecar, at about its usual length.
func node(i int) *corev3.Node {
	pod := fmt.Sprintf("reviews-v1-7d99fd7978-%05d", i)
	address := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	metadata, err := structpb.NewStruct(map[string]any{
		"ANNOTATIONS": map[string]any{
			"istio.io/rev": "default",
			"kubectl.kubernetes.io/default-container":      "reviews",
			"kubectl.kubernetes.io/default-logs-container": "reviews",
			"kubernetes.io/config.seen":                    "2026-01-01T00:00:00.000000000Z",
			"kubernetes.io/config.source":                  "api",
			"prometheus.io/path":                           "/stats/prometheus",
			"prometheus.io/port":                           "15020", "prometheus.io/scrape": "true",
		},
		"APP_CONTAINERS":        "reviews",
		"CLUSTER_ID":            "Kubernetes",
		"ENVOY_PROMETHEUS_PORT": 15090,
		"ENVOY_STATUS_PORT":     15021,
		"INSTANCE_IPS":          address,
		"INTERCEPTION_MODE":     "REDIRECT",
		"ISTIO_PROXY_SHA":       "0123456789abcdef0123456789abcdef01234567",
		"ISTIO_VERSION":         "1.31.1",
		"LABELS": map[string]any{
			"app": "reviews", "version": "v1", "pod-template-hash": "7d99fd7978", "security.istio.io/tlsMode": "istio",
			"service.istio.io/canonical-name": "reviews", "service.istio.io/canonical-revision": "v1",
		},
		"MESH_ID": "cluster.local", "NAME": pod, "NAMESPACE": "default", "NODE_NAME": fmt.Sprintf("node-%d", i%100),
		"OWNER":     "kubernetes://apis/apps/v1/namespaces/default/deployments/reviews-v1",
		"PILOT_SAN": []any{"istiod.istio-system.svc"},
		"POD_PORTS": `[{"containerPort":9080,"protocol":"TCP"}]`,
		"PROXY_CONFIG": map[string]any{
			"binaryPath":             "/usr/local/bin/envoy",
			"concurrency":            2,
			"configPath":             "./etc/istio/proxy",
			"controlPlaneAuthPolicy": "MUTUAL_TLS",
			"discoveryAddress":       "istiod.istio-system.svc:15012",
			"drainDuration":          "45s",
			"proxyAdminPort":         15000,
			"serviceCluster":         "istio-proxy",
			"statNameLength":         189, "statusPort": 15020, "terminationDrainDuration": "5s",
		},
		"SERVICE_ACCOUNT": "bookinfo-reviews", "WORKLOAD_NAME": "reviews-v1",
	})
	if err != nil {
		panic(err)
	}
	return &corev3.Node{
		Id:            fmt.Sprintf("sidecar~%s~%s.default~default.svc.cluster.local", address, pod),
		Cluster:       "reviews.default",
		UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
		}},
		Locality: &corev3.Locality{Region: "eu-central-1", Zone: "eu-central-1a"}, Metadata: metadata,
	}
}
