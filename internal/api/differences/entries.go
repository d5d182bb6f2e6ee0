package differences

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// entriesOfOneHost returns what works otherwise among ServiceEntries, the oldest first: for one
// host in one namespace istiod unites the endpoints of all, Lateen those of entries that agree.
func entriesOfOneHost(all []*networkingv1.ServiceEntry) []source.Problem {
	type place struct{ namespace, host string }
	first := map[place]*networkingv1.ServiceEntry{}
	var found []source.Problem
	for _, e := range all {
		for i, host := range e.Spec.GetHosts() {
			p := place{e.Namespace, strings.ToLower(host)}
			known := first[p]
			switch {
			case known == nil:
				first[p] = e
			case !agree(&known.Spec, &e.Spec):
				found = append(found, differs(kinds.ServiceEntry, e, Field{at("spec.hosts", i), host},
					"ServiceEntry "+known.Namespace+"/"+known.Name+" has this host too; istiod unites their "+
						"endpoints; Lateen gives the host to the older one, as they do not agree",
					"the same resolution, location, workloadSelector, exportTo and subjectAltNames, or another host"))
			}
		}
	}
	return found
}

// agree reports whether two ServiceEntries for one host are one service (mesh/state, entries.go).
func agree(a, o *networking.ServiceEntry) bool {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	same := func(a, o []string) bool { return slices.Equal(sorted(a), sorted(o)) }
	labels, others := a.GetWorkloadSelector().GetLabels(), o.GetWorkloadSelector().GetLabels()
	if len(labels) != len(others) {
		return false
	}
	for k, v := range labels {
		if others[k] != v {
			return false
		}
	}
	return a.GetResolution() == o.GetResolution() && a.GetLocation() == o.GetLocation() &&
		same(a.GetExportTo(), o.GetExportTo()) && same(a.GetSubjectAltNames(), o.GetSubjectAltNames())
}
