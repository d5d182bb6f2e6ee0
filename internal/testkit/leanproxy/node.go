package leanproxy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Sidecar is the node that Istio's agent writes for an Envoy beside an application. Traffic is
// intercepted, as in a cluster.
func Sidecar(pod, namespace, address string, labels map[string]string) *corev3.Node {
	return node("sidecar", pod, namespace, address, labels)
}

// Gateway is the node of an Envoy that stands alone.
func Gateway(pod, namespace, address string, labels map[string]string) *corev3.Node {
	return node("router", pod, namespace, address, labels)
}

func node(kind, pod, namespace, address string, labels map[string]string) *corev3.Node {
	own := map[string]any{}
	for k, v := range labels {
		own[k] = v
	}
	metadata, err := structpb.NewStruct(map[string]any{
		"CLUSTER_ID": "Kubernetes", "NAMESPACE": namespace, "NAME": pod, "LABELS": own, "SERVICE_ACCOUNT": "default",
		"INSTANCE_IPS": address, "ISTIO_VERSION": "1.31.0", "MESH_ID": "cluster.local", "INTERCEPTION_MODE": "REDIRECT",
		"WORKLOAD_NAME": labels["app"], "NODE_NAME": "node-a", "GENERATOR": "",
		"PROXY_CONFIG": map[string]any{
			"concurrency":    2,
			"serviceCluster": labels["app"] + "." + namespace,
			"drainDuration":  "45s",
		},
	})
	if err != nil {
		panic(err) // of constants and strings
	}
	return &corev3.Node{
		Id:            kind + "~" + address + "~" + pod + "." + namespace + "~" + namespace + ".svc.cluster.local",
		Cluster:       labels["app"] + "." + namespace,
		UserAgentName: "envoy",
		Metadata:      metadata,
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
		}},
	}
}
