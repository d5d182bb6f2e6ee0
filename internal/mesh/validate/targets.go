package validate

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// attachedTo is the aspect of the Gateways that targetRefs of a policy name.
const attachedTo = "targets"

// checkTargets reports policies that are attached to Gateways whose workloads they do not reach.
// The state closes such Gateways, unless the policy decides nothing. The cost follows the delta,
// and the policies of Gateways that changed.
func (c *Checker) checkTargets(snap *state.Snapshot, d *state.Delta) {
	dirty := map[*model.Meta]attachedPolicy{}
	changed := func(m *model.Meta, stays bool, p attachedPolicy) {
		if stays {
			dirty[m] = p
		} else {
			c.store.setRelation(relation{m.Key(), attachedTo}, nil)
		}
	}
	for _, p := range d.AuthorizationPolicies {
		at := p.Either()
		changed(&at.Meta, p.New != nil, attachedPolicy{&at.Selection, at.Decides()})
	}
	for _, p := range d.RequestAuthentications {
		at := p.Either()
		changed(&at.Meta, p.New != nil, attachedPolicy{&at.Selection, true})
	}
	for _, p := range d.Telemetries {
		at := p.Either()
		changed(&at.Meta, p.New != nil, attachedPolicy{&at.Selection, false})
	}
	for at := range changedGateways(d) {
		for p := range snap.AuthorizationPoliciesFor(at.namespace, model.GatewaySelectors(at.name)[0]) {
			dirty[&p.Meta] = attachedPolicy{&p.Selection, p.Decides()}
		}
		for a := range snap.RequestAuthenticationsFor(at.namespace, model.GatewaySelectors(at.name)[0]) {
			dirty[&a.Meta] = attachedPolicy{&a.Selection, true}
		}
		for t := range snap.TelemetriesFor(at.namespace, model.GatewaySelectors(at.name)[0]) {
			dirty[&t.Meta] = attachedPolicy{&t.Selection, false}
		}
	}
	for m, p := range dirty {
		c.store.setRelation(relation{m.Key(), attachedTo}, targetProblems(snap, m, p))
	}
}

// attachedPolicy is the workloads that a policy is for, and whether it may refuse calls.
type attachedPolicy struct {
	*model.Selection
	decides bool
}

type gatewayName struct{ namespace, name string }

// changedGateways are the Gateways of the Gateway API of which the delta says anything: that they
// are served, or by which workloads.
func changedGateways(d *state.Delta) map[gatewayName]bool {
	changed := map[gatewayName]bool{}
	for _, p := range d.GatewayAPIStatuses {
		if s := p.Either(); s.Kind == kinds.KubernetesGateway {
			changed[gatewayName{s.Namespace, s.Name}] = true
		}
	}
	for _, p := range d.Gateways {
		if g := p.Either(); g.Kind == kinds.KubernetesGateway {
			changed[gatewayName{g.Namespace, g.Owner}] = true
		}
	}
	return changed
}

// targetProblems says of which Gateways a policy does not reach the workloads, and why.
func targetProblems(snap *state.Snapshot, m *model.Meta, policy attachedPolicy) []source.Problem {
	var problems []source.Problem
	for _, name := range policy.Gateways {
		p := source.Problem{Severity: source.Warning, Path: "spec.targetRefs", Value: name}
		host, reached := snap.ReachesGateway(m.Namespace, name, policy.Selection)
		switch {
		case snap.GatewayAPIStatus(kinds.KubernetesGateway, m.Namespace, name) == nil:
			p.Message = "there is no such Gateway in the namespace that Lateen serves"
			p.Want = "the name of a Gateway"
		case reached:
			continue
		default:
			p.Message = fmt.Sprintf(
				"the Gateway is served by the workloads of %s; the policy is for those of its own namespace with the "+
					"label %s=%s alone", host, model.GatewayNameLabel, name,
			)
			p.Want = "the label on these workloads and in the selector of their Service"
			if policy.decides {
				p.Severity = source.Error
				p.Message += ", so that the Gateway stays closed"
			}
		}
		problems = append(problems, p)
	}
	return problems
}
