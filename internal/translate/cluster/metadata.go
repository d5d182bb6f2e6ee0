package cluster

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Where a DestinationRule is found in the API, as Istio's tools print it: its namespace stands
// between the two.
const (
	namespaces = "/apis/" + kinds.NetworkingGroup + "/v1/namespaces/"
	ruleKind   = "/destination-rule/"
)

// metadata is filter_metadata.istio: what Istio's telemetry and "istioctl proxy-config clusters"
// read.
func metadata(in OutboundInput) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	if namespace, name, ok := strings.Cut(in.Service, "/"); ok {
		service := &structpb.Struct{Fields: map[string]*structpb.Value{
			"host":      structpb.NewStringValue(string(in.Host)),
			"name":      structpb.NewStringValue(name),
			"namespace": structpb.NewStringValue(namespace),
		}}
		fields["services"] = structpb.NewListValue(&structpb.ListValue{
			Values: []*structpb.Value{structpb.NewStructValue(service)},
		})
	}
	if namespace, name, ok := strings.Cut(in.Rule, "/"); ok {
		fields["config"] = structpb.NewStringValue(namespaces + namespace + ruleKind + name)
	}
	if in.Subset != "" {
		fields["subset"] = structpb.NewStringValue(in.Subset)
	}
	if in.External {
		fields["external"] = structpb.NewBoolValue(true)
	}
	if len(fields) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": {Fields: fields}}}
}
