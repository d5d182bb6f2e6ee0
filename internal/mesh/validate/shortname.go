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

// checkShortNames reports ServiceEntries and VirtualServices for a host such as "web.default",
// which is also a short name of a Kubernetes Service. The host wins over the short name, which is
// hardly ever intended.
func (c *Checker) checkShortNames(snap *state.Snapshot, d *state.Delta) {
	for _, p := range d.Services {
		for _, s := range []*model.Service{p.Old, p.New} {
			if s == nil {
				continue
			}
			c.checkShortName(snap, s.Host)
			for _, name := range shortNames(s.Host, snap.Mesh.Domain) {
				c.checkShortName(snap, name)
			}
		}
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), shortNameOf(p.Old.Host)}, nil)
		}
	}
	for _, p := range d.VirtualServices {
		if p.Old != nil {
			for _, h := range p.Old.Hosts {
				if p.New == nil || !slices.Contains(p.New.Hosts, h) {
					c.store.setRelation(relation{p.Old.Key(), shortNameOf(h)}, nil)
				}
			}
		}
		if p.New != nil {
			for _, h := range p.New.Hosts {
				c.checkShortName(snap, h)
			}
		}
	}
}

// shortNameOf is the aspect of a host that is a short name of a Service.
func shortNameOf(h model.Host) string { return "short name " + string(h) }

// checkShortName checks the objects with a host.
func (c *Checker) checkShortName(snap *state.Snapshot, h model.Host) {
	full, ok := completed(h, snap.Mesh.Domain)
	if !ok {
		return
	}
	var meant *model.Service
	if s := winner(snap.Claims(full)); s != nil && s.Kind == kinds.Service {
		meant = s
	}
	var problems []source.Problem
	if meant != nil {
		problems = []source.Problem{{
			Severity: source.Warning, Path: "spec.hosts", Value: string(h),
			Message: fmt.Sprintf(
				"is a short name of %s as well: calls by just this name come here, those by its other names do not",
				meant.Key(),
			),
			Want: fmt.Sprintf("%s, or a host that is nobody's short name", full),
		}}
	}
	for s := range snap.Claims(h) {
		c.store.setRelation(relation{s.Key(), shortNameOf(h)}, problems)
	}
	for v := range snap.VirtualServicesOf(h) {
		c.store.setRelation(relation{v.Key(), shortNameOf(h)}, problems)
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

// completed returns the full host of a short name of a Kubernetes Service.
func completed(h model.Host, domain string) (model.Host, bool) {
	base := strings.TrimSuffix(string(h), ".svc")
	if h.IsWildcard() || strings.Count(base, ".") != 1 {
		return "", false
	}
	return model.Host(base + ".svc." + domain), true
}
