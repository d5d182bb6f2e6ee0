package cluster

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
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
	if service := serviceValue(in.Host, in.Service); service != nil {
		fields["services"] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{service}})
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
	return istioMetadata(fields)
}

// inboundMetadata names the services that lead to one of the workload's own ports: of these Istio's
// filter for metrics takes destination_service.
func inboundMetadata(services *model.List[NamedService]) *corev3.Metadata {
	var values []*structpb.Value
	for s := range services.All() {
		if v := serviceValue(s.Host, s.Service); v != nil {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil
	}
	list := structpb.NewListValue(&structpb.ListValue{Values: values})
	return istioMetadata(map[string]*structpb.Value{"services": list})
}

// serviceValue is one service, given as "namespace/name"; nil for another form.
func serviceValue(host model.Host, service string) *structpb.Value {
	namespace, name, ok := strings.Cut(service, "/")
	if !ok {
		return nil
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"host":      structpb.NewStringValue(string(host)),
		"name":      structpb.NewStringValue(name),
		"namespace": structpb.NewStringValue(namespace),
	}})
}

func istioMetadata(fields map[string]*structpb.Value) *corev3.Metadata {
	if len(fields) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": {Fields: fields}}}
}
