package envoyfilter

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// FilterValue returns the value of a patch that adds a filter with a configuration: a filter of
// connections for model.PatchNetworkFilter, else one of requests. It fails for text that is no
// UTF-8.
func FilterValue(target model.PatchTarget, name string, config proto.Message) (model.PatchValue, error) {
	typed, err := Packed(config)
	if err != nil {
		return model.PatchValue{}, err
	}
	var f proto.Message = &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: typed}}
	if target == model.PatchNetworkFilter {
		f = &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: typed}}
	}
	body, err := encoded(f)
	if err != nil {
		return model.PatchValue{}, err
	}
	return model.PatchValue{
		Type: string(f.ProtoReflect().Descriptor().FullName()), Body: string(body), Name: name,
		Config: typed.GetTypeUrl(),
	}, nil
}

// RefuseAll returns the configuration of a filter that refuses everything: rules that allow, of
// which none matches.
func RefuseAll(target model.PatchTarget) proto.Message {
	none := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	if target == model.PatchNetworkFilter {
		return &networkrbacv3.RBAC{StatPrefix: "closed.", Rules: none}
	}
	return &httprbacv3.RBAC{Rules: none}
}

// Packed returns a message as an Any, always with the same bytes. It fails for text that is no
// UTF-8.
func Packed(m proto.Message) (*anypb.Any, error) {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("%s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return out, nil
}

func encoded(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
