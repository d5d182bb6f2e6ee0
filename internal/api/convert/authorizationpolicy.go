package convert

import (
	"slices"

	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// refusesInstead is what happens to a policy that is not translated yet: rules that depend on
// callers or requests, and mutual TLS where the mesh does not turn it on. Such a policy refuses all
// calls to its workloads, because it must not leave open what it is there to close.
const refusesInstead = "is not supported yet; instead, all calls to the workloads that it is for are refused"

// authorizationPolicy converts an AuthorizationPolicy. One that is for no workload that Lateen
// serves gives no object.
func (r *reader) authorizationPolicy(in *securityv1.AuthorizationPolicy) []Object {
	spec := &in.Spec
	p := path("spec")
	policy := &model.AuthorizationPolicy{Meta: r.meta}
	selector, usable := r.selector(p.dot("selector.matchLabels"), spec.GetSelector().GetMatchLabels())
	policy.Selector = selector
	if len(spec.GetTargetRefs()) > 0 || spec.GetTargetRef() != nil {
		r.fail(
			p.dot("targetRefs"),
			nil,
			"attaches the policy to gateways of the Gateway API or to waypoints, which are not served yet; it has "+
				"no effect",
			"a selector",
		)
		return nil
	}
	policy.Effect = r.authorization(p, spec)
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{policy}
}

func (r *reader) authorization(p path, spec *security.AuthorizationPolicy) model.AuthorizationEffect {
	rules := spec.GetRules()
	forAll := slices.ContainsFunc(rules, isForAll)
	switch action := spec.GetAction(); action {
	case security.AuthorizationPolicy_ALLOW:
		switch {
		case forAll:
			return model.AllowAll
		case len(rules) > 0:
			r.fail(
				p.dot("rules"),
				nil,
				"tells callers or requests apart, which is not supported yet; instead, it allows nothing",
				"{} to allow all calls, or no rules to allow none",
			)
		}
		return model.AllowNothing
	case security.AuthorizationPolicy_DENY:
		switch {
		case len(rules) == 0:
			return model.NoEffect
		case !forAll:
			r.fail(
				p.dot("rules"),
				nil,
				"tells callers or requests apart, which "+refusesInstead,
				"{} to deny all calls",
			)
		}
		return model.DenyAll
	case security.AuthorizationPolicy_AUDIT:
		r.warn(p.dot("action"), action, notYet, "")
		return model.NoEffect
	default:
		if action == security.AuthorizationPolicy_CUSTOM && len(rules) == 0 {
			return model.NoEffect
		}
		r.fail(p.dot("action"), action, refusesInstead, "ALLOW or DENY")
		return model.DenyAll
	}
}

// isForAll reports whether a rule matches every call. A null rule does not.
func isForAll(rule *security.Rule) bool {
	return rule != nil && len(rule.GetFrom()) == 0 && len(rule.GetTo()) == 0 && len(rule.GetWhen()) == 0
}
