package sidecar

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// encodeNode returns the Node that Istio's agent writes into the bootstrap of a workload's Envoy,
// with Envoy's name and version. Envoy sends it in the first request of a stream.
func encodeNode(m *Mesh, id *Identity) ([]byte, error) {
	metadata, err := structpb.NewStruct(metadataOf(m, id))
	if err != nil {
		return nil, fmt.Errorf("the metadata of %s.%s: %w", id.Pod, id.Namespace, err)
	}
	kind := "sidecar"
	if id.Router {
		kind = "router"
	}
	node := &corev3.Node{
		Id: kind + "~" + id.Address.String() + "~" + id.Pod + "." + id.Namespace + "~" +
			id.Namespace + ".svc.cluster.local",
		Cluster:       workload(id) + "." + id.Namespace,
		Metadata:      metadata,
		UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
		}},
	}
	if id.Locality != "" {
		node.Locality = &corev3.Locality{}
		region, rest, _ := strings.Cut(id.Locality, "/")
		node.Locality.Region = region
		node.Locality.Zone, node.Locality.SubZone, _ = strings.Cut(rest, "/")
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(node)
}

// workload derives the workload's name from a Pod's labels, as Istio does.
func workload(id *Identity) string {
	for _, label := range []string{"service.istio.io/canonical-name", "app.kubernetes.io/name", "app"} {
		if name := id.Labels[label]; name != "" {
			return name
		}
	}
	return id.Pod
}

func metadataOf(m *Mesh, id *Identity) map[string]any {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	labels := make(map[string]any, len(id.Labels))
	for k, v := range id.Labels {
		labels[k] = v
	}
	name := workload(id)
	fields := map[string]any{
		"NAME": id.Pod, "NAMESPACE": id.Namespace, "LABELS": labels, "SERVICE_ACCOUNT": or(
			id.ServiceAccount, "default",
		),
		"CLUSTER_ID": or(m.ClusterID, "Kubernetes"), "MESH_ID": or(
			m.MeshID, "cluster.local",
		), "ISTIO_VERSION": or(m.IstioVersion, "1.31.0"),
		"INSTANCE_IPS": id.Address.String(), "INTERCEPTION_MODE": "REDIRECT", "WORKLOAD_NAME": name,
		"OWNER":                 "kubernetes://apis/apps/v1/namespaces/" + id.Namespace + "/deployments/" + name,
		"ENVOY_PROMETHEUS_PORT": 15090, "ENVOY_STATUS_PORT": 15021,
		"PROXY_CONFIG": map[string]any{
			"serviceCluster": name + "." + id.Namespace, "discoveryAddress": "istiod.istio-system.svc:15012",
			"concurrency":   2,
			"drainDuration": "45s", "parentShutdownDuration": "60s", "statusPort": 15020,
			"terminationDrainDuration": "5s",
		},
	}
	if m.Network != "" {
		fields["NETWORK"] = m.Network
	}
	if id.NodeName != "" {
		fields["NODE_NAME"] = id.NodeName
	}
	for k, v := range m.Metadata {
		fields[k] = v
	}
	return fields
}
