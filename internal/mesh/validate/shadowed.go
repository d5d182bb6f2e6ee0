package validate

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkShadowed reports what another object for the same host keeps out of force: routes of the
// mesh, and parts of DestinationRules of one namespace; and Sidecars for workloads that another one
// is for. It looks at the hosts and namespaces that the delta names.
func (c *Checker) checkShadowed(w *state.Snapshot, d *state.Delta) {
	for _, p := range d.VirtualServices {
		for _, v := range []*model.VirtualService{p.Old, p.New} {
			if v == nil {
				continue
			}
			for _, h := range v.Hosts {
				if p.New == nil || !slices.Contains(p.New.Hosts, h) {
					c.store.setRelation(relation{v.Key(), shadowOf(h)}, nil)
				}
				c.shadowedRoutes(w, h)
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
			c.shadowedRules(w, r.Host)
		}
	}
	for _, p := range d.Sidecars {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), sameWorkloads}, nil)
		}
		c.shadowedSidecars(w, p.Either().Namespace)
	}
	for _, p := range d.PeerAuthentications {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), sameWorkloads}, nil)
		}
		c.shadowedPeers(w, p.Either().Namespace)
	}
}

// sameWorkloads is the aspect of who else is for the workloads of an object of which one alone can
// be in force.
const sameWorkloads = "shadow of workloads"

func (c *Checker) shadowedSidecars(w *state.Snapshot, namespace string) {
	first := firstFor{}
	for s := range w.Sidecars(namespace) {
		c.store.setRelation(relation{s.Key(), sameWorkloads}, first.add(&s.Meta, s.Selector, "spec.workloadSelector"))
	}
}

func (c *Checker) shadowedPeers(w *state.Snapshot, namespace string) {
	first := firstFor{}
	for g := range w.PeerAuthentications(namespace) {
		c.store.setRelation(relation{g.Key(), sameWorkloads}, first.add(&g.Meta, g.Selector, "spec.selector"))
	}
}

// firstFor are the objects in force, by the workloads that they select.
type firstFor map[model.Labels]source.Key

// add takes the next object in the total order, and tells what keeps it out of force.
func (f firstFor) add(m *model.Meta, selector model.Labels, path string) []source.Problem {
	by, taken := f[selector]
	if !taken {
		f[selector] = m.Key()
		return nil
	}
	return []source.Problem{{
		Severity: source.Warning, Path: path,
		Message: fmt.Sprintf("%s is for the same workloads and comes first; this one is not in force", by), Want: fmt.Sprintf("one %s for each workload", m.Kind),
	}}
}

// shadowOf is the aspect of who else is for a host.
func shadowOf(h model.Host) string { return "shadow of " + string(h) }

func (c *Checker) shadowedRoutes(w *state.Snapshot, h model.Host) {
	var before []*model.VirtualService
	for v := range w.VirtualServicesOf(h) {
		var problems []source.Problem
		if slices.Contains(v.Gateways, model.Mesh) {
			i := slices.IndexFunc(before, func(o *model.VirtualService) bool { return o.ExportTo.Visible(o.Namespace, v.Namespace) })
			if i >= 0 {
				problems = append(problems, shadowed(h, before[i].Key()))
			}
			before = append(before, v)
		}
		c.store.setRelation(relation{v.Key(), shadowOf(h)}, problems)
	}
}

// shadowedRules reports what an earlier rule of the same namespace says in place of a later one:
// rules for one host and the same workloads are merged (model.MergeRules).
func (c *Checker) shadowedRules(w *state.Snapshot, h model.Host) {
	type place struct {
		namespace string
		selector  model.Labels
	}
	rules := map[place]*ruleOwners{}
	for r := range w.DestinationRulesOf(h) {
		at := place{r.Namespace, r.Selector}
		if rules[at] == nil {
			rules[at] = &ruleOwners{subsets: map[string]source.Key{}}
		}
		c.store.setRelation(relation{r.Key(), shadowOf(h)}, rules[at].add(r))
	}
}

// ruleOwners are the rules that have the say in what merged rules hold.
type ruleOwners struct {
	policy  *source.Key
	subsets map[string]source.Key
}

// add takes the next rule in the total order, and tells what of it is not in force.
func (o *ruleOwners) add(r *model.DestinationRule) []source.Problem {
	var problems []source.Problem
	key := r.Key()
	if r.Policy != nil {
		if o.policy == nil {
			o.policy = &key
		} else {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Path: "spec.trafficPolicy",
				Message: fmt.Sprintf("%s is for %s too, comes first, and has a trafficPolicy; where both apply, this one is not in force", o.policy, r.Host),
				Want:    "one trafficPolicy for each host",
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
			Message: fmt.Sprintf("%s defines this subset of %s too and comes first; where both apply, this one is not in force", first, r.Host),
			Want:    "a subset of another name",
		})
	}
	return problems
}

func shadowed(h model.Host, by source.Key) source.Problem {
	return source.Problem{
		Severity: source.Warning, Path: "spec.hosts", Value: string(h),
		Message: fmt.Sprintf("%s is for this host too and comes first; where both apply, this one is not in force", by), Want: "one object for each host",
	}
}
