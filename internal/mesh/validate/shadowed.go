package validate

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkShadowed reports objects that another one keeps out of force: routes for the same host,
// parts of DestinationRules of one namespace, and Sidecars and PeerAuthentications for the same
// workloads. It checks the hosts and namespaces that the delta names.
func (c *Checker) checkShadowed(snap *state.Snapshot, d *state.Delta) {
	for _, p := range d.VirtualServices {
		for _, v := range []*model.VirtualService{p.Old, p.New} {
			if v == nil {
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
	for _, p := range d.Sidecars {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), sameWorkloads}, nil)
		}
		c.checkSidecars(snap, p.Either().Namespace)
	}
	for _, p := range d.PeerAuthentications {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), sameWorkloads}, nil)
		}
		c.checkPeerAuthentications(snap, p.Either().Namespace)
	}
}

// sameWorkloads is the aspect of objects for the same workloads, of which only one is in force.
const sameWorkloads = "shadow of workloads"

func (c *Checker) checkSidecars(snap *state.Snapshot, namespace string) {
	first := inForce{}
	for s := range snap.Sidecars(namespace) {
		c.store.setRelation(relation{s.Key(), sameWorkloads}, first.add(&s.Meta, s.Selector, "spec.workloadSelector"))
	}
}

func (c *Checker) checkPeerAuthentications(snap *state.Snapshot, namespace string) {
	first := inForce{}
	for g := range snap.PeerAuthentications(namespace) {
		c.store.setRelation(relation{g.Key(), sameWorkloads}, first.add(&g.Meta, g.Selector, "spec.selector"))
	}
}

// inForce are the objects in force, by workload selector.
type inForce map[model.Labels]source.Key

// add takes the next object in the total order, and tells what keeps it out of force.
func (f inForce) add(m *model.Meta, selector model.Labels, path string) []source.Problem {
	by, taken := f[selector]
	if !taken {
		f[selector] = m.Key()
		return nil
	}
	return []source.Problem{{
		Severity: source.Warning, Path: path,
		Message: fmt.Sprintf(
			"%s is for the same workloads and comes first; this one is not in force", by,
		), Want: fmt.Sprintf("one %s for each workload", m.Kind),
	}}
}

// shadowOf is the aspect of who else is for a host.
func shadowOf(h model.Host) string { return "shadow of " + string(h) }

func (c *Checker) checkShadowedRoutes(snap *state.Snapshot, h model.Host) {
	var before []*model.VirtualService
	for v := range snap.VirtualServicesOf(h) {
		var problems []source.Problem
		if slices.Contains(v.Gateways, model.Mesh) {
			i := slices.IndexFunc(
				before, func(o *model.VirtualService) bool { return o.ExportTo.Visible(o.Namespace, v.Namespace) },
			)
			if i >= 0 {
				problems = append(problems, shadowedBy(h, before[i].Key()))
			}
			before = append(before, v)
		}
		c.store.setRelation(relation{v.Key(), shadowOf(h)}, problems)
	}
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
