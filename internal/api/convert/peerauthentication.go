package convert

import (
	"maps"
	"slices"

	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// peerAuthentication converts a PeerAuthentication. It decides which calls a workload takes, and by
// DISABLE how it is called.
func (r *reader) peerAuthentication(in *securityv1.PeerAuthentication) []Object {
	spec := &in.Spec
	p := path("spec")
	policy := &model.PeerAuthentication{Meta: r.meta}
	selector, usable := r.selector(p.dot("selector.matchLabels"), spec.GetSelector().GetMatchLabels())
	policy.Selector = selector
	policy.Mode = r.mutualTLS(p.dot("mtls"), spec.GetMtls())
	ports := spec.GetPortLevelMtls()
	if selector.IsEmpty() && len(ports) > 0 {
		r.warn(p.dot("portLevelMtls"), nil, "has an effect only in a policy with a selector", "a selector")
		ports = nil
	}
	for _, number := range slices.Sorted(maps.Keys(ports)) {
		at := p.dot("portLevelMtls").key(shown(number))
		mode := r.mutualTLS(at, ports[number])
		if port, ok := r.port(at, int64(number)); ok {
			policy.Ports = append(policy.Ports, model.PortMTLS{Port: port, Mode: mode})
		}
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{policy}
}

func (r *reader) mutualTLS(p path, in *security.PeerAuthentication_MutualTLS) model.MTLSMode {
	switch mode := in.GetMode(); mode {
	case security.PeerAuthentication_MutualTLS_UNSET:
		return model.MTLSUnset
	case security.PeerAuthentication_MutualTLS_DISABLE:
		return model.MTLSDisable
	case security.PeerAuthentication_MutualTLS_PERMISSIVE:
		return model.MTLSPermissive
	case security.PeerAuthentication_MutualTLS_STRICT:
		return model.MTLSStrict
	default:
		r.fail(p.dot("mode"), mode, refusesInstead, "STRICT, PERMISSIVE or DISABLE")
		return model.MTLSStrict
	}
}
