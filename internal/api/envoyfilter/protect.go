package envoyfilter

import (
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// protect closes where the filter that a patch adds is missing. For one with a mistake a filter
// stands that refuses all. Patches that add no filter are left as they are.
func (r *reader) protect(p *model.ConfigPatch) {
	adds := p.Operation == model.PatchAdd || p.Operation.Inserts() || p.Operation == 0
	if !adds || p.Target != model.PatchHTTPFilter && p.Target != model.PatchNetworkFilter {
		return
	}
	p.Fallback = model.FallbackDeny
	if !r.failed {
		return
	}
	value, err := refusing(p.Target, "lateen.refused."+r.path)
	if err != nil {
		return
	}
	if p.Operation == 0 {
		p.Operation = model.PatchInsertFirst
	}
	r.failed, p.Value = false, value
	for i := range r.problems {
		r.problems[i].Message = strings.Replace(r.problems[i].Message, leftOut, refused, 1)
	}
}

// refusing returns a filter that refuses all.
func refusing(target model.PatchTarget, name string) (out model.PatchValue, err error) {
	none := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	var config, filter proto.Message = &httprbacv3.RBAC{Rules: none}, nil
	if target == model.PatchNetworkFilter {
		config = &networkrbacv3.RBAC{StatPrefix: "refused.", Rules: none}
	}
	packed := &anypb.Any{}
	if err := anypb.MarshalFrom(packed, config, proto.MarshalOptions{Deterministic: true}); err != nil {
		return out, err
	}
	if target == model.PatchNetworkFilter {
		filter = &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed}}
	} else {
		filter = &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed}}
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(filter)
	return model.PatchValue{
		Type: string(filter.ProtoReflect().Descriptor().FullName()), Body: string(body), Name: name,
		Config: packed.GetTypeUrl(),
	}, err
}
