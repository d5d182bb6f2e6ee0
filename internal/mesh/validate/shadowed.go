package validate

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkShadowed reports objects that another one keeps out of force: routes for the same host,
// parts of DestinationRules of one namespace, and Sidecars, PeerAuthentications, Telemetries and
// ProxyConfigs for the same workloads. It checks the hosts and namespaces that the delta names.
func (c *Checker) checkShadowed(snap *state.Snapshot, d *state.Delta) {
	for _, p := range d.VirtualServices {
		for _, v := range []*model.VirtualService{p.Old, p.New} {
			if v == nil || isAttached(v) && !slices.Contains(v.Gateways, model.Mesh) {
				continue
			}
			for _, h := range v.Hosts {
				if p.New == nil || !slices.Contains(p.New.Hosts, h) {
					c.store.setRelation(relation{v.Key(), shadowOf(h)}, nil)
				}
				c.checkShadowedRoutes(snap, h)
			}
		}
	}
	for _, p := range d.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r == nil {
				continue
			}
			if p.New == nil || p.New.Host != r.Host {
				c.store.setRelation(relation{r.Key(), shadowOf(r.Host)}, nil)
			}
			c.checkShadowedRules(snap, r.Host)
		}
	}
	checkSame(c, d.Sidecars, snap.Sidecars, func(s *model.Sidecar) claimed {
		return claimed{meta: &s.Meta, selectors: []model.Labels{s.Selector}, path: "spec.workloadSelector"}
	})
	checkSame(c, d.PeerAuthentications, snap.PeerAuthentications, func(p *model.PeerAuthentication) claimed {
		return claimed{meta: &p.Meta, selectors: []model.Labels{p.Selector}, path: "spec.selector"}
	})
	checkSame(c, d.Telemetries, snap.Telemetries, func(t *model.Telemetry) claimed {
		return claimedBy(&t.Meta, &t.Selection)
	})
	checkSame(c, d.ProxyConfigs, snap.ProxyConfigs, func(p *model.ProxyConfig) claimed {
		return claimed{meta: &p.Meta, selectors: []model.Labels{p.Selector}, path: "spec.selector"}
	})
}

// sameWorkloads is the aspect of objects for the same workloads, of which only one is in force.
const sameWorkloads = "shadow of workloads"

// claimed is an object with the workloads that it is for, and the field that says so.
type claimed struct {
	meta *model.Meta
	// selectors are those of which one has to match. The empty one matches all.
	selectors []model.Labels
	path      string
	// merged says that all which select a workload are in force for it.
	merged bool
}

// claimedBy returns what the selection of a Telemetry claims: the workloads of a Gateway once, not
// by each label that they may have.
func claimedBy(m *model.Meta, s *model.Selection) claimed {
	if len(s.Gateways) == 0 {
		return claimed{meta: m, selectors: []model.Labels{s.Selector}, path: "spec.selector", merged: true}
	}
	out := claimed{meta: m, path: "spec.targetRefs", merged: true}
	if !s.Selector.IsEmpty() { // both are set by mistake
		out.selectors = append(out.selectors, s.Selector)
	}
	for _, name := range s.Gateways {
		out.selectors = append(out.selectors, model.GatewaySelectors(name)[0])
	}
	return out
}

// checkSame checks the objects of one type in the namespaces of changed ones.
func checkSame[T any](
	c *Checker, changed []state.Pair[T], in func(namespace string) iter.Seq[*T], of func(*T) claimed,
) {
	for _, p := range changed {
		if p.New == nil {
			c.store.setRelation(relation{of(p.Old).meta.Key(), sameWorkloads}, nil)
		}
		first := inForce{}
		for o := range in(of(p.Either()).meta.Namespace) {
			claim := of(o)
			c.store.setRelation(
				relation{claim.meta.Key(), sameWorkloads}, first.add(claim),
			)
		}
	}
}

// inForce are the objects in force, by workload selector.
type inForce map[model.Labels]source.Key

// add takes the next object in the total order, and tells what keeps it out of force, if only for
// some of its workloads.
func (f inForce) add(c claimed) []source.Problem {
	var problems []source.Problem
	for _, selector := range c.selectors {
		by, taken := f[selector]
		if !taken {
			f[selector] = c.meta.Key()
			continue
		}
		of := "this one is not in force"
		if c.merged && !selector.IsEmpty() {
			of = "both are in force, and what this one says counts"
		}
		if len(c.selectors) > 1 {
			of += " where " + strings.Join(slices.Collect(selector.Pairs()), ",")
		}
		problems = append(problems, source.Problem{
			Severity: source.Warning, Path: c.path,
			Message: fmt.Sprintf("%s is for the same workloads and comes first; %s", by, of),
			Want:    fmt.Sprintf("one %s for each workload", c.meta.Kind),
		})
	}
	return problems
}

// shadowOf is the aspect of who else is for a host.
func shadowOf(h model.Host) string { return "shadow of " + string(h) }

func (c *Checker) checkShadowedRoutes(snap *state.Snapshot, h model.Host) {
	var before []*model.VirtualService
	for v := range snap.VirtualServicesOf(h) {
		var problems []source.Problem
		if slices.Contains(v.Gateways, model.Mesh) {
			i := slices.IndexFunc(before, func(o *model.VirtualService) bool {
				return o.ExportTo.Visible(o.Namespace, v.Namespace) && routeAlike(o, v)
			})
			if i >= 0 {
				problems = append(problems, shadowedBy(h, before[i].Key()))
			}
			before = append(before, v)
		}
		c.store.setRelation(relation{v.Key(), shadowOf(h)}, problems)
	}
}

// routeAlike reports whether two VirtualServices have routes of one kind for calls within the mesh.
// One without such a route takes the host from nobody.
func routeAlike(a, b *model.VirtualService) bool {
	return meshHTTP(a) && meshHTTP(b) ||
		slices.ContainsFunc(a.TLS, meshTLS) && slices.ContainsFunc(b.TLS, meshTLS) ||
		slices.ContainsFunc(a.TCP, meshTCP) && slices.ContainsFunc(b.TCP, meshTCP)
}

func meshHTTP(v *model.VirtualService) bool {
	return slices.ContainsFunc(v.HTTP, func(r *model.HTTPRoute) bool {
		return len(r.Matches) == 0 ||
			slices.ContainsFunc(r.Matches, func(m *model.HTTPMatch) bool { return includesMesh(m.Gateways) })
	})
}

func meshTLS(r *model.TLSRoute) bool { return slices.ContainsFunc(r.Matches, meshMatch) }

func meshTCP(r *model.TCPRoute) bool {
	return len(r.Matches) == 0 || slices.ContainsFunc(r.Matches, meshMatch)
}

func meshMatch(m *model.L4Match) bool { return includesMesh(m.Gateways) }

// includesMesh reports whether the gateways of a match include the mesh. A match that names none
// has those of its VirtualService.
func includesMesh(gateways []string) bool {
	return len(gateways) == 0 || slices.Contains(gateways, model.Mesh)
}

// checkShadowedRules reports what a later rule of a namespace says in vain. Rules for one host and
// the same workloads are merged (model.MergeRules).
func (c *Checker) checkShadowedRules(snap *state.Snapshot, h model.Host) {
	type place struct {
		namespace string
		selector  model.Labels
	}
	rules := map[place]*ruleOwners{}
	for r := range snap.DestinationRulesOf(h) {
		at := place{r.Namespace, r.Selector}
		if rules[at] == nil {
			rules[at] = &ruleOwners{subsets: map[string]source.Key{}}
		}
		c.store.setRelation(relation{r.Key(), shadowOf(h)}, rules[at].add(r))
	}
}

// ruleOwners are the rules that set each part of the merged rule.
type ruleOwners struct {
	policy  *source.Key
	subsets map[string]source.Key
}

// add takes the next rule in the total order, and returns what of it is not in force.
func (o *ruleOwners) add(r *model.DestinationRule) []source.Problem {
	var problems []source.Problem
	key := r.Key()
	if r.Policy != nil {
		if o.policy == nil {
			o.policy = &key
		} else {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Path: "spec.trafficPolicy",
				Message: fmt.Sprintf(
					"%s is for %s too, comes first, and has a trafficPolicy; "+
						"where both apply, this one is not in force", o.policy, r.Host,
				),
				Want: "one trafficPolicy for each host",
			})
		}
	}
	for _, s := range r.Subsets {
		first, defined := o.subsets[s.Name]
		if !defined {
			o.subsets[s.Name] = key
			continue
		}
		problems = append(problems, source.Problem{
			Severity: source.Warning, Path: "spec.subsets", Value: s.Name,
			Message: fmt.Sprintf(
				"%s defines this subset of %s too and comes first; where both apply, this one is not in force",
				first,
				r.Host,
			),
			Want: "a subset of another name",
		})
	}
	return problems
}

func shadowedBy(h model.Host, by source.Key) source.Problem {
	return source.Problem{
		Severity: source.Warning, Path: "spec.hosts", Value: string(h),
		Message: fmt.Sprintf(
			"%s is for this host too and comes first; where both apply, this one is not in force", by,
		), Want: "one object for each host", Code: source.DuplicateDomain,
	}
}
