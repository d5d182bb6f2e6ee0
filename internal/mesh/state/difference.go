package state

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// The first parts of the keys in the difference indexes. Two namespaces see almost the same in most
// meshes; these indexes find what they see differently without reading what they have in common.
const (
	exportedTo  = "to"    // a namespace, and not to all
	inNamespace = "in"    // a namespace
	underHost   = "under" // a reversed host
	bySource    = "asks"  // who calls
)

// eachExport calls f with each namespace that something is exported to. It calls f with none if
// that is all namespaces.
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

func serviceDifferenceKeys(keys [][]byte, svc *model.Service) [][]byte {
	eachExport(svc.ExportTo, svc.Namespace, func(n string) {
		keys = append(
			keys, ordered(join(exportedTo, n), &svc.Meta, svc.Host),
		)
	})
	return keys
}

func virtualServiceDifferenceKeys(keys [][]byte, v *model.VirtualService) [][]byte {
	eachExport(
		v.ExportTo,
		v.Namespace,
		func(n string) { keys = append(keys, ordered(join(exportedTo, n), &v.Meta, "")) },
	)
	for _, h := range v.Hosts {
		keys = append(keys, ordered(append(append(join(underHost), reversed(h)...), 0), &v.Meta, ""))
	}
	if matchesSource(v) {
		keys = append(keys, ordered(join(bySource), &v.Meta, ""))
	}
	return keys
}

func destinationRuleDifferenceKeys(keys [][]byte, r *model.DestinationRule) [][]byte {
	eachExport(
		r.ExportTo,
		r.Namespace,
		func(n string) { keys = append(keys, ordered(join(exportedTo, n), &r.Meta, "")) },
	)
	return append(keys, ordered(join(inNamespace, r.Namespace), &r.Meta, ""))
}

// matchesSource reports whether routes of a VirtualService depend on who calls.
func matchesSource(vs *model.VirtualService) bool {
	requests := func(m *model.HTTPMatch) bool { return m.SourceNamespace != "" || !m.SourceLabels.IsEmpty() }
	connections := func(m *model.L4Match) bool { return m.SourceNamespace != "" || !m.SourceLabels.IsEmpty() }
	return slices.ContainsFunc(
		vs.HTTP, func(r *model.HTTPRoute) bool { return slices.ContainsFunc(r.Matches, requests) },
	) ||
		slices.ContainsFunc(
			vs.TLS,
			func(r *model.TLSRoute) bool { return slices.ContainsFunc(r.Matches, connections) },
		) ||
		slices.ContainsFunc(vs.TCP, func(r *model.TCPRoute) bool { return slices.ContainsFunc(r.Matches, connections) })
}

// ServicesExportedTo yields the services that are exported to a namespace by name, and not to all.
func (s *Snapshot) ServicesExportedTo(namespace string) iter.Seq[*model.Service] {
	return s.services.by[servicesByDifference].under(join(exportedTo, namespace))
}

// VirtualServicesExportedTo yields the VirtualServices that are exported to a namespace by name,
// and not to all.
func (s *Snapshot) VirtualServicesExportedTo(namespace string) iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByDifference].under(join(exportedTo, namespace))
}

// VirtualServicesUnder yields the VirtualServices with hosts that a wildcard covers, once for each
// host. Such a host may be a wildcard too.
func (s *Snapshot) VirtualServicesUnder(wildcard model.Host) iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByDifference].under(append(join(underHost), reversed(wildcard[1:])...))
}

// VirtualServicesBySource yields the VirtualServices whose routes depend on who calls.
func (s *Snapshot) VirtualServicesBySource() iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByDifference].under(join(bySource))
}

// DestinationRulesExportedTo yields the DestinationRules that are exported to a namespace by name,
// and not to all.
func (s *Snapshot) DestinationRulesExportedTo(namespace string) iter.Seq[*model.DestinationRule] {
	return s.destinationRules.by[destinationRulesByDifference].under(join(exportedTo, namespace))
}

// DestinationRulesIn yields the DestinationRules of a namespace, with those that select workloads.
func (s *Snapshot) DestinationRulesIn(namespace string) iter.Seq[*model.DestinationRule] {
	return s.destinationRules.by[destinationRulesByDifference].under(join(inNamespace, namespace))
}
