package state

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A policy that is attached to a Gateway (targetRefs) is for workloads with the Gateway's name in
// their labels. Those of a Service that is the Gateway's address may lack it. Then the policy
// cannot be enforced, and the Gateway stays closed.

// policyTargets adds the Gateways that changed policies are attached to, or were.
func policyTargets[T any](c concern, changed []Pair[T], of func(*T) (*model.Selection, *model.Meta)) {
	for _, p := range changed {
		for _, policy := range []*T{p.Old, p.New} {
			if policy == nil {
				continue
			}
			selection, meta := of(policy)
			for _, name := range selection.Gateways {
				c.gatewayAndSets(c.next.kubernetesGateway(meta.Namespace, name))
			}
		}
	}
}

// ReachesGateway reports whether a policy of a Gateway's namespace is for all workloads of the
// Gateway, and returns the Service whose workloads they are; "" for those with the Gateway's name
// in their labels.
func (s *Snapshot) ReachesGateway(
	namespace, name string, selection *model.Selection,
) (service model.Host, reached bool) {
	g := s.kubernetesGateway(namespace, name)
	if g == nil || g.Service == "" {
		return "", true
	}
	labels, _, workloads := s.workloadsOf(g)
	return g.Service, selection.IsFor(workloads == namespace, func(l model.Labels) bool { return l.Selects(labels) })
}

// unreached says which policy is attached to a Gateway and does not reach its workloads; "" if all
// do.
func (s *Snapshot) unreached(g *model.KubernetesGateway) string {
	misses := func(selection *model.Selection) bool {
		_, reached := s.ReachesGateway(g.Namespace, g.Name, selection)
		return !reached && slices.Contains(selection.Gateways, g.Name)
	}
	if labels, _, _ := s.workloadsOf(g); g.Service == "" || labels.IsEmpty() {
		return "" // every policy does, or there are no workloads
	}
	attached := model.GatewaySelectors(g.Name)[0]
	for p := range s.AuthorizationPoliciesFor(g.Namespace, attached) {
		if p.Decides() && misses(&p.Selection) {
			return unreachedBy(&p.Meta)
		}
	}
	for a := range s.RequestAuthenticationsFor(g.Namespace, attached) {
		if misses(&a.Selection) {
			return unreachedBy(&a.Meta)
		}
	}
	return ""
}

func unreachedBy(m *model.Meta) string {
	return fmt.Sprintf(
		"the %s %s/%s is attached to the Gateway and does not reach its workloads: their Service does not select "+
			"the label %s", m.Kind, m.Namespace, m.Name, model.GatewayNameLabel,
	)
}
