package state

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// workloadEntriesIn yields the WorkloadEntries of a namespace by name.
func (s *Snapshot) workloadEntriesIn(namespace string) iter.Seq[*model.WorkloadEntry] {
	return s.workloadEntries.by[workloadEntriesByName].under(join(namespace))
}

// NamedWorkloadEntriesIn yields the WorkloadEntries of a namespace whose address is a host name.
func (s *Snapshot) NamedWorkloadEntriesIn(namespace string) iter.Seq[*model.WorkloadEntry] {
	return s.workloadEntries.by[workloadEntriesNamed].under(join(namespace))
}

// SelectsWorkloadEntries reports whether WorkloadEntries with the labels that a service selects are
// endpoints of it: of a Service with virtual IPs, and of a ServiceEntry with resolution STATIC or
// DNS. Those whose address is a host name are endpoints of the latter alone.
func SelectsWorkloadEntries(s *model.Service) bool {
	return s != nil && !s.Selector.IsEmpty() &&
		(s.Resolution == model.EDS || s.Resolution.IsByDNS() && s.Kind == kinds.ServiceEntry)
}

// joinEntries replaces what WorkloadEntries give to services that changed, and then what those that
// changed give.
func (j *joiner) joinEntries() {
	for _, s := range j.b.delta.Services {
		if SelectsWorkloadEntries(s.Old) && SelectsWorkloadEntries(s.New) && s.Old.Selector == s.New.Selector &&
			slices.Equal(s.Old.Ports, s.New.Ports) && s.Old.Resolution.IsByDNS() == s.New.Resolution.IsByDNS() {
			continue
		}
		for e := range j.before.workloadEntriesIn(s.Either().Namespace) {
			j.swap(entryServes(s.Old, e, j.before), entryServes(s.New, e, j.after))
		}
	}
	for _, e := range j.b.delta.WorkloadEntries {
		for _, c := range j.contributionsOf(e.Old) {
			j.swap(c, nil)
		}
		for _, c := range j.contributionsOf(e.New) {
			j.swap(nil, c)
		}
	}
}

// contributionsOf are what a WorkloadEntry gives to the services as they are now.
func (j *joiner) contributionsOf(e *model.WorkloadEntry) []*contribution {
	if e == nil {
		return nil
	}
	var all []*contribution
	for s := range j.after.ServicesSelecting(e.Namespace, e.Labels) {
		if c := entryServes(s, e, j.after); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// entryServes is what a WorkloadEntry gives to a service, nil if that does not select it, or does
// not look its host name up.
func entryServes(s *model.Service, e *model.WorkloadEntry, at *Snapshot) *contribution {
	if !SelectsWorkloadEntries(s) || !s.Selector.Selects(e.Labels) || e.IsNamed() && !s.Resolution.IsByDNS() {
		return nil
	}
	c := &contribution{service: serviceIDOf(s), contributor: "workloadentry/" + e.Name}
	c.addAccount(e.Account)
	if e.Withheld {
		return c
	}
	for _, p := range s.Ports {
		if port := e.Serves(p); port != 0 {
			c.endpoints = append(c.endpoints, model.Endpoint{
				Address: e.Address, Port: port, PortName: p.Name, Health: e.Health, Weight: e.Weight, Labels: e.Labels,
				Locality: e.Locality, Workload: e.Namespace + "/" + e.Name,
			})
		}
	}
	return c.markTLS(at)
}
