package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkShortNames reports ServiceEntries and VirtualServices for a host as "web.default", by which
// a Kubernetes service is called too: such a host comes before the short name of another, and
// hardly anybody means it so.
func (c *Checker) checkShortNames(w *state.Snapshot, d *state.Delta) {
	for _, p := range d.Services {
		for _, s := range []*model.Service{p.Old, p.New} {
			if s == nil {
				continue
			}
			c.shortName(w, s.Host)
			for _, name := range shortNames(s.Host, w.Mesh.Domain) {
				c.shortName(w, name)
			}
		}
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), shortOf(p.Old.Host)}, nil)
		}
	}
	for _, p := range d.VirtualServices {
		if p.Old != nil {
			for _, h := range p.Old.Hosts {
				if p.New == nil || !slices.Contains(p.New.Hosts, h) {
					c.store.setRelation(relation{p.Old.Key(), shortOf(h)}, nil)
				}
			}
		}
		if p.New != nil {
			for _, h := range p.New.Hosts {
				c.shortName(w, h)
			}
		}
	}
}

// shortOf is the aspect of whose short name a host is.
func shortOf(h model.Host) string { return "short name " + string(h) }

// shortName looks at those who have a host for their own.
func (c *Checker) shortName(w *state.Snapshot, h model.Host) {
	full, ok := completed(h, w.Mesh.Domain)
	if !ok {
		return
	}
	var meant *model.Service
	if s := winner(w.Claims(full)); s != nil && s.Kind == kinds.Service {
		meant = s
	}
	var problems []source.Problem
	if meant != nil {
		problems = []source.Problem{{
			Severity: source.Warning, Path: "spec.hosts", Value: string(h),
			Message: fmt.Sprintf("is a short name of %s as well: calls by just this name come here, those by its other names do not", meant.Key()),
			Want:    fmt.Sprintf("%s, or a host that is nobody's short name", full),
		}}
	}
	for s := range w.Claims(h) {
		c.store.setRelation(relation{s.Key(), shortOf(h)}, problems)
	}
	for v := range w.VirtualServicesOf(h) {
		c.store.setRelation(relation{v.Key(), shortOf(h)}, problems)
	}
}

// shortNames are those of a host of a Kubernetes service that do not depend on who calls.
func shortNames(h model.Host, domain string) []model.Host {
	base, ok := strings.CutSuffix(string(h), ".svc."+domain)
	if !ok || strings.Count(base, ".") != 1 {
		return nil
	}
	return []model.Host{model.Host(base), model.Host(base + ".svc")}
}

// completed is the host that a short name of a Kubernetes service stands for.
func completed(h model.Host, domain string) (model.Host, bool) {
	base := strings.TrimSuffix(string(h), ".svc")
	if h.IsWildcard() || strings.Count(base, ".") != 1 {
		return "", false
	}
	return model.Host(base + ".svc." + domain), true
}
