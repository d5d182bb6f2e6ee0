package validate

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// lookedUp is the aspect of whether services look a WorkloadEntry's host name up.
const lookedUp = "looked up"

// checkNamedWorkloads reports WorkloadEntries whose address is a host name, where services select
// them that look no names up. The cost follows the delta, and such WorkloadEntries in the namespace
// of a service that changed.
func (c *Checker) checkNamedWorkloads(snap *state.Snapshot, d *state.Delta) {
	dirty := map[*model.WorkloadEntry]bool{}
	for _, p := range d.WorkloadEntries {
		if p.New == nil || !p.New.IsNamed() {
			c.store.setRelation(relation{p.Either().Key(), lookedUp}, nil)
			continue
		}
		dirty[p.New] = true
	}
	for _, p := range d.Services {
		if !state.SelectsWorkloadEntries(p.Old) && !state.SelectsWorkloadEntries(p.New) {
			continue
		}
		for e := range snap.NamedWorkloadEntriesIn(p.Either().Namespace) {
			dirty[e] = true
		}
	}
	for e := range dirty {
		c.store.setRelation(relation{e.Key(), lookedUp}, namedInVain(snap, e))
	}
}

// namedInVain says which services select a workload and do not look its host name up.
func namedInVain(snap *state.Snapshot, e *model.WorkloadEntry) []source.Problem {
	var services []string
	for svc := range snap.ServicesSelecting(e.Namespace, e.Labels) {
		if state.SelectsWorkloadEntries(svc) && !svc.Resolution.IsByDNS() {
			services = append(services, svc.Key().String())
		}
	}
	slices.Sort(services)
	var problems []source.Problem
	for _, name := range slices.Compact(services) {
		problems = append(problems, source.Problem{
			Severity: source.Error,
			Path:     "spec.address",
			Value:    e.Address,
			Message:  "is a host name, which " + name + " does not look up: the workload is no endpoint of it",
			Want:     "an IP address, or labels that ServiceEntries of resolution DNS alone select",
		})
	}
	return problems
}
