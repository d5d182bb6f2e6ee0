package policy

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Decide says what policies do with a call. All of them are for its workload. The trust domains are
// that of the mesh, and its aliases.
//
// CUSTOM asks first, then DENY refuses, and then ALLOW does, where there is one and none matches.
// AUDIT and dry runs decide nothing. A call that a policy denies is denied, whatever a provider
// would answer, and a provider that cannot be asked about the call refuses it. Where a policy with
// CUSTOM has a condition about tokens, its turn comes when these are verified.
func Decide(policies []*model.AuthorizationPolicy, trustDomains []string, call Call) Report {
	d := decision{matcher: matcher{call: call, domains: trustDomains}, report: Report{Outcome: Allowed}}
	for _, p := range policies {
		d.add(p)
	}
	d.conclude()
	return d.report
}

// decision is what is known while policies are looked at.
type decision struct {
	matcher
	report Report
	// The first rule that decides, by what it does.
	denies, allows *Cause
	anyAllow       bool
}

// add looks at a policy.
func (d *decision) add(p *model.AuthorizationPolicy) {
	result := resultOf(p)
	t := trial{d.matcher}
	t.allows = p.Action == model.AuthorizationAllow
	var cause *Cause
	for _, rule := range RulesOf(p) {
		r := t.rule(rule)
		if result.Rules = append(result.Rules, r); r.Matches && cause == nil {
			cause = &Cause{Kind: "AuthorizationPolicy", Namespace: p.Namespace, Name: p.Name, Rule: &r.Index}
		}
	}
	result.Matches = cause != nil
	d.report.Policies = append(d.report.Policies, result)
	if !p.Decides() {
		return
	}
	d.note(RulesOf(p))
	if p.Action == model.AuthorizationAllow {
		d.anyAllow = true
	}
	if cause != nil {
		d.matched(p, cause)
	}
}

func (d *decision) matched(p *model.AuthorizationPolicy, cause *Cause) {
	switch {
	case p.Action == model.AuthorizationAllow:
		d.allows = first(d.allows, cause)
	case p.Action == model.AuthorizationCustom && asks(p, d.call):
		if !slices.Contains(d.report.Providers, p.Provider.Name) {
			d.report.Providers = append(d.report.Providers, p.Provider.Name)
		}
	default:
		d.denies = first(d.denies, cause)
	}
}

// asks reports whether the provider of a policy can be asked about a call.
func asks(p *model.AuthorizationPolicy, call Call) bool {
	return p.Provider != nil && (p.Provider.GRPC || !call.TCP)
}

// note remembers attributes that conditions are about and the call does not say.
func (d *decision) note(rules []model.AuthorizationRule) {
	for _, rule := range rules {
		for _, k := range conditionsOf(rule) {
			if k.Attribute.IsHTTP() && d.call.TCP {
				continue
			}
			if _, known := d.call.value(k); !known {
				d.report.NotGiven = append(d.report.NotGiven, nameOf(k))
			}
		}
	}
}

// conclude sets the outcome.
func (d *decision) conclude() {
	r := &d.report
	slices.Sort(r.NotGiven)
	r.NotGiven = slices.Compact(r.NotGiven)
	switch {
	case d.denies != nil:
		r.refuse(d.call, d.denies, "rule "+fmt.Sprint(*d.denies.Rule)+" matches")
	case d.anyAllow && d.allows == nil:
		r.refuse(d.call, nil, "there are ALLOW policies for the workload, and none of them matches")
	case len(r.Providers) > 0:
		r.Outcome, r.By = Asks, d.allows
		r.Reason = "an external authorizer decides, and nothing else refuses the call"
	case d.allows != nil:
		r.By, r.Reason = d.allows, "rule "+fmt.Sprint(*d.allows.Rule)+" matches, and no policy denies the call"
	default:
		r.Reason = "no policy denies the call, and the workload has no ALLOW policy"
	}
}

// trial tries rules of policies with one action. A condition about requests cannot be evaluated on
// a connection of bytes: an ALLOW does not match by it, and everything else goes without it.
type trial struct{ matcher }

func (t trial) rule(rule model.AuthorizationRule) RuleResult {
	r := RuleResult{Index: rule.Index}
	if t.call.TCP && t.allows {
		for _, k := range conditionsOf(rule) {
			if k.Attribute.IsHTTP() {
				r.Failed = []Failure{{Attribute: nameOf(k), NeedsRequest: true}}
				return r
			}
		}
	}
	if r.Failed = t.oneOf("from[%d].source", rule.From); r.Failed != nil {
		return r
	}
	if r.Failed = t.oneOf("to[%d].operation", rule.To); r.Failed != nil {
		return r
	}
	if failed, ok := t.all("when", rule.When); !ok {
		r.Failed = []Failure{failed}
		return r
	}
	r.Matches = true
	return r
}

// oneOf returns nothing if one of the lists matches, or there are none; otherwise the first failed
// condition of each.
func (t trial) oneOf(field string, lists []model.AuthorizationConditions) (failed []Failure) {
	for i, list := range lists {
		f, ok := t.all(fmt.Sprintf(field, i), list)
		if ok {
			return nil
		}
		failed = append(failed, f)
	}
	return failed
}

// all returns the first condition that the call does not meet.
func (t trial) all(at string, list model.AuthorizationConditions) (Failure, bool) {
	for _, k := range list {
		if k.Attribute.IsHTTP() && t.call.TCP {
			continue
		}
		if f, ok := t.meets(k); !ok {
			f.Field = fieldOf(at, k, len(f.Not) > 0)
			return f, false
		}
	}
	return Failure{}, true
}

// conditionsOf returns all conditions of a rule.
func conditionsOf(rule model.AuthorizationRule) []model.AuthorizationCondition {
	lists := slices.Concat(rule.From, rule.To, []model.AuthorizationConditions{rule.When})
	return slices.Concat(lists...)
}

// RulesOf returns the rules of a policy; nil without any.
func RulesOf(p *model.AuthorizationPolicy) []model.AuthorizationRule {
	if p.Rules == nil {
		return nil
	}
	return p.Rules.List
}

func first(a, b *Cause) *Cause {
	if a != nil {
		return a
	}
	return b
}
