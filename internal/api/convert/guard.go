package convert

import (
	"maps"
	"slices"

	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Rules that tell callers or requests apart are not translated yet, and mutual TLS only where the mesh turns it on. A policy that cannot be kept must not
// leave open what it is there to close, so it refuses all calls to its workloads.
const refusesInstead = "is not supported yet; instead, all calls to the workloads that it is for are refused"

// authorizationPolicy is left out when it is for no workload that Lateen serves.
func (r *reader) authorizationPolicy(in *securityv1.AuthorizationPolicy) []Object {
	spec := &in.Spec
	p := path("spec")
	g := &model.Guard{Meta: r.meta}
	selector, usable := r.selector(p.dot("selector.matchLabels"), spec.GetSelector().GetMatchLabels())
	g.Selector = selector
	if len(spec.GetTargetRefs()) > 0 || spec.GetTargetRef() != nil {
		r.fail(p.dot("targetRefs"), nil, "attaches the policy to gateways of the Gateway API or to waypoints, which are not served yet; it has no effect",
			"a selector")
		return nil
	}
	g.Effect = r.authorization(p, spec)
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{g}
}

func (r *reader) authorization(p path, spec *security.AuthorizationPolicy) model.GuardEffect {
	rules := spec.GetRules()
	forAll := slices.ContainsFunc(rules, isForAll)
	switch action := spec.GetAction(); action {
	case security.AuthorizationPolicy_ALLOW:
		switch {
		case forAll:
			return model.GuardAdmits
		case len(rules) > 0:
			r.fail(p.dot("rules"), nil, "tells callers or requests apart, which is not supported yet; instead, it allows nothing",
				"{} to allow all calls, or no rules to allow none")
		}
		return model.GuardAdmitsNone
	case security.AuthorizationPolicy_DENY:
		switch {
		case len(rules) == 0:
			return model.GuardSilent
		case !forAll:
			r.fail(p.dot("rules"), nil, "tells callers or requests apart, which "+refusesInstead, "{} to deny all calls")
		}
		return model.GuardRefuses
	case security.AuthorizationPolicy_AUDIT:
		r.warn(p.dot("action"), action, notYet, "")
		return model.GuardSilent
	default:
		if action == security.AuthorizationPolicy_CUSTOM && len(rules) == 0 {
			return model.GuardSilent
		}
		r.fail(p.dot("action"), action, refusesInstead, "ALLOW or DENY")
		return model.GuardRefuses
	}
}

// isForAll tells that a rule matches every call. A rule that is null is not one.
func isForAll(rule *security.Rule) bool {
	return rule != nil && len(rule.GetFrom()) == 0 && len(rule.GetTo()) == 0 && len(rule.GetWhen()) == 0
}

// peerAuthentication says whether calls are let in that are not encrypted: all calls are that, unless the mesh turns TLS on.
func (r *reader) peerAuthentication(in *securityv1.PeerAuthentication) []Object {
	spec := &in.Spec
	p := path("spec")
	g := &model.Guard{Meta: r.meta}
	selector, usable := r.selector(p.dot("selector.matchLabels"), spec.GetSelector().GetMatchLabels())
	g.Selector = selector
	g.Effect = r.mutualTLS(p.dot("mtls"), spec.GetMtls())
	ports := spec.GetPortLevelMtls()
	if selector.IsEmpty() && len(ports) > 0 {
		r.warn(p.dot("portLevelMtls"), nil, "has an effect only in a policy with a selector", "a selector")
		ports = nil
	}
	for _, number := range slices.Sorted(maps.Keys(ports)) {
		at := p.dot("portLevelMtls").key(shown(number))
		effect := r.mutualTLS(at, ports[number])
		if port, ok := r.port(at, int64(number)); ok {
			g.Ports = append(g.Ports, model.GuardedPort{Port: port, Effect: effect})
		}
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{g}
}

func (r *reader) mutualTLS(p path, in *security.PeerAuthentication_MutualTLS) model.GuardEffect {
	switch mode := in.GetMode(); mode {
	case security.PeerAuthentication_MutualTLS_UNSET:
		return model.GuardSilent
	case security.PeerAuthentication_MutualTLS_DISABLE, security.PeerAuthentication_MutualTLS_PERMISSIVE:
		return model.GuardAdmits
	default:
		if mode != security.PeerAuthentication_MutualTLS_STRICT || !r.mesh.AutoTLS {
			r.fail(p.dot("mode"), mode, refusesInstead, "PERMISSIVE or DISABLE, or STRICT with enableAutoMtls: true in the mesh configuration")
		}
		return model.GuardRefuses
	}
}
