package world

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkShadowed reports objects that another one for the same host keeps out of force: routes of the mesh, and
// DestinationRules of one namespace. It looks at the hosts that the delta names.
func (l *Loop) checkShadowed(w *World, d *Delta) {
	for _, p := range d.VirtualServices {
		for _, v := range []*model.VirtualService{p.Old, p.New} {
			if v == nil {
				continue
			}
			for _, h := range v.Hosts {
				if p.New == nil || !slices.Contains(p.New.Hosts, h) {
					l.o.Ledger.relation(relation{v.Key(), shadowOf(h)}, nil)
				}
				l.shadowedRoutes(w, h)
			}
		}
	}
	for _, p := range d.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r == nil {
				continue
			}
			if p.New == nil || p.New.Host != r.Host {
				l.o.Ledger.relation(relation{r.Key(), shadowOf(r.Host)}, nil)
			}
			l.shadowedRules(w, r.Host)
		}
	}
}

// shadowOf is the aspect of who else is for a host.
func shadowOf(h model.Host) string { return "shadow of " + string(h) }

func (l *Loop) shadowedRoutes(w *World, h model.Host) {
	var before []*model.VirtualService
	for v := range w.VirtualServicesOf(h) {
		var problems []source.Problem
		if slices.Contains(v.Gateways, model.Mesh) {
			i := slices.IndexFunc(before, func(o *model.VirtualService) bool { return o.ExportTo.Visible(o.Namespace, v.Namespace) })
			if i >= 0 {
				problems = append(problems, shadowed("spec.hosts", h, before[i].Key()))
			}
			before = append(before, v)
		}
		l.o.Ledger.relation(relation{v.Key(), shadowOf(h)}, problems)
	}
}

func (l *Loop) shadowedRules(w *World, h model.Host) {
	type place struct {
		namespace string
		selector  model.Labels
	}
	first := map[place]*model.DestinationRule{}
	for r := range w.DestinationRulesOf(h) {
		var problems []source.Problem
		at := place{r.Namespace, r.Selector}
		if o := first[at]; o != nil {
			problems = append(problems, shadowed("spec.host", h, o.Key()))
		} else {
			first[at] = r
		}
		l.o.Ledger.relation(relation{r.Key(), shadowOf(h)}, problems)
	}
}

func shadowed(path string, h model.Host, by source.Key) source.Problem {
	return source.Problem{
		Severity: source.Warning, Path: path, Value: string(h),
		Message: fmt.Sprintf("%s is for this host too and comes first; where both apply, this one is not in force", by), Want: "one object for each host",
	}
}
