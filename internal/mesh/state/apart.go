package state

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// What two namespaces see otherwise is little in most meshes. These indexes find it without a look at what they see alike.

// The first parts of keys of what is not the same for all namespaces.
const (
	exportedTo = "to"    // a namespace, and not to all
	isIn       = "in"    // a namespace
	isUnder    = "under" // a reversed host
	asks       = "asks"  // who calls
)

// eachExport yields the namespaces to which something is exported, unless these are all.
func eachExport(e model.Exports, owner string, f func(namespace string)) {
	if e.None || e.All {
		return
	}
	if e.Own {
		f(owner)
	}
	for _, n := range e.Namespaces {
		f(n)
	}
}

func serviceApartKeys(keys [][]byte, s *model.Service) [][]byte {
	eachExport(s.ExportTo, s.Namespace, func(n string) { keys = append(keys, ordered(join(exportedTo, n), &s.Meta, s.Host)) })
	return keys
}

func virtualServiceApartKeys(keys [][]byte, v *model.VirtualService) [][]byte {
	eachExport(v.ExportTo, v.Namespace, func(n string) { keys = append(keys, ordered(join(exportedTo, n), &v.Meta, "")) })
	for _, h := range v.Hosts {
		keys = append(keys, ordered(append(append(join(isUnder), reversed(h)...), 0), &v.Meta, ""))
	}
	if asksForSource(v) {
		keys = append(keys, ordered(join(asks), &v.Meta, ""))
	}
	return keys
}

func destinationRuleApartKeys(keys [][]byte, r *model.DestinationRule) [][]byte {
	eachExport(r.ExportTo, r.Namespace, func(n string) { keys = append(keys, ordered(join(exportedTo, n), &r.Meta, "")) })
	return append(keys, ordered(join(isIn, r.Namespace), &r.Meta, ""))
}

// asksForSource tells whether routes of a VirtualService depend on whose calls they are.
func asksForSource(vs *model.VirtualService) bool {
	requests := func(m *model.HTTPMatch) bool { return m.SourceNamespace != "" || !m.SourceLabels.IsEmpty() }
	connections := func(m *model.L4Match) bool { return m.SourceNamespace != "" || !m.SourceLabels.IsEmpty() }
	return slices.ContainsFunc(vs.HTTP, func(r *model.HTTPRoute) bool { return slices.ContainsFunc(r.Matches, requests) }) ||
		slices.ContainsFunc(vs.TLS, func(r *model.TLSRoute) bool { return slices.ContainsFunc(r.Matches, connections) }) ||
		slices.ContainsFunc(vs.TCP, func(r *model.TCPRoute) bool { return slices.ContainsFunc(r.Matches, connections) })
}

// ServicesExportedTo yields the services that are exported to a namespace, but not to all.
func (w *Snapshot) ServicesExportedTo(namespace string) iter.Seq[*model.Service] {
	return w.services.by[servicesApart].under(join(exportedTo, namespace))
}

// VirtualServicesExportedTo yields the VirtualServices that are exported to a namespace, but not to all.
func (w *Snapshot) VirtualServicesExportedTo(namespace string) iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesApart].under(join(exportedTo, namespace))
}

// VirtualServicesUnder yields the VirtualServices with hosts, wildcards too, that a wildcard covers, once for each.
func (w *Snapshot) VirtualServicesUnder(wildcard model.Host) iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesApart].under(append(join(isUnder), reversed(wildcard[1:])...))
}

// VirtualServicesBySource yields the VirtualServices whose routes depend on whose calls they are.
func (w *Snapshot) VirtualServicesBySource() iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesApart].under(join(asks))
}

// DestinationRulesExportedTo yields the DestinationRules that are exported to a namespace, but not to all.
func (w *Snapshot) DestinationRulesExportedTo(namespace string) iter.Seq[*model.DestinationRule] {
	return w.destinationRules.by[destinationRulesApart].under(join(exportedTo, namespace))
}

// DestinationRulesIn yields the DestinationRules of a namespace, those for some of its workloads, which hold there alone, among them.
func (w *Snapshot) DestinationRulesIn(namespace string) iter.Seq[*model.DestinationRule] {
	return w.destinationRules.by[destinationRulesApart].under(join(isIn, namespace))
}
