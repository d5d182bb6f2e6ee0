package convert

import (
	"strconv"

	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// refusesInstead is what happens to a policy that cannot be enforced: it refuses all calls to its
// workloads, because it must not leave open what it is there to close.
const refusesInstead = "is not supported yet; instead, all calls to the workloads that it is for are refused"

// authorizationPolicy converts an AuthorizationPolicy. One that is for no workload that Lateen
// serves gives no object.
func (r *reader) authorizationPolicy(in *securityv1.AuthorizationPolicy) []Object {
	spec := &in.Spec
	p := path("spec")
	policy := &model.AuthorizationPolicy{Meta: r.meta}
	selection, usable := r.selection(p, spec)
	policy.Selection = selection
	r.dryRun(policy)
	r.authorizationAction(p, spec, policy)
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{policy}
}

// dryRun reads the annotation that turns a policy into an experiment. A policy with a bad one is
// enforced.
func (r *reader) dryRun(policy *model.AuthorizationPolicy) {
	text, set := r.annotations[kinds.DryRunAnnotation]
	if !set {
		return
	}
	dry, err := strconv.ParseBool(text)
	if err != nil {
		r.fail(
			path("metadata.annotations").key(kinds.DryRunAnnotation), text,
			"is neither true nor false; the policy is enforced", `"true" or "false"`,
		)
	}
	policy.DryRun = dry && err == nil
}

// authorizationAction reads the action of a policy, and its rules by what the action makes of a
// mistake. A policy with an action that cannot be taken denies the calls that match.
func (r *reader) authorizationAction(p path, spec *security.AuthorizationPolicy, policy *model.AuthorizationPolicy) {
	switch action := spec.GetAction(); action {
	case security.AuthorizationPolicy_ALLOW:
		policy.Action = model.AuthorizationAllow
	case security.AuthorizationPolicy_DENY:
		policy.Action = model.AuthorizationDeny
	case security.AuthorizationPolicy_AUDIT:
		policy.Action = model.AuthorizationAudit
	case security.AuthorizationPolicy_CUSTOM:
		policy.Action = model.AuthorizationCustom
	default:
		r.fail(p.dot("action"), action, "is no action; calls that match are refused", "ALLOW, DENY, AUDIT or CUSTOM")
		policy.Action = model.AuthorizationDeny
	}
	r.authorizationProvider(p.dot("provider"), spec.GetProvider(), policy)
	rules := authorizationRules{reader: r, allows: policy.Action == model.AuthorizationAllow}
	policy.Rules = r.pools.authorization.Canonical(rules.read(p.dot("rules"), spec.GetRules()))
}

// authorizationProvider finds the external authorizer of a policy. Without one that is known, calls
// that match are refused.
func (r *reader) authorizationProvider(
	p path, in *security.AuthorizationPolicy_ExtensionProvider, policy *model.AuthorizationPolicy,
) {
	if policy.Action != model.AuthorizationCustom {
		if in != nil {
			r.warn(p, nil, "has an effect with action CUSTOM alone", "action: CUSTOM, or no provider")
		}
		return
	}
	if policy.DryRun {
		r.warn(p, nil, "is not asked in a dry run, so the policy does nothing", "no annotation "+kinds.DryRunAnnotation)
	}
	for _, known := range r.mesh.ExtAuthz {
		if known.Name == in.GetName() {
			policy.Provider = known
			return
		}
	}
	r.fail(
		p.dot("name"), in.GetName(),
		"is no external authorizer of the mesh; calls that match are refused",
		"the name of one of extensionProviders with envoyExtAuthzHttp or envoyExtAuthzGrpc",
	)
	policy.Action = model.AuthorizationDeny
}
