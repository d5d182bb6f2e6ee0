package validate

import (
	"fmt"
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkServices reports claims to a host that lose where they were meant to count.
func (c *Checker) checkServices(snap *state.Snapshot, d *state.Delta) {
	for _, p := range d.Services {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), string(p.Old.Host)}, nil)
		}
	}
	for _, p := range d.Services {
		for _, s := range []*model.Service{p.Old, p.New} {
			if s == nil {
				continue
			}
			claims := newHostClaims()
			for claim := range snap.Claims(s.Host) {
				c.store.setRelation(relation{claim.Key(), string(claim.Host)}, claims.add(claim))
			}
		}
	}
}

// hostClaims are the claims to one host so far, in the total order. A namespace's own claims come
// first for its callers, so one that is exported to nobody else loses to its own namespace alone.
type hostClaims struct {
	in       map[string]*model.Service // by the namespace that it stands in
	to       map[string]*model.Service // by another namespace that it is exported to by name
	toAll    []*model.Service          // the first two of different namespaces
	anyNamed *model.Service            // the first of to
}

func newHostClaims() *hostClaims {
	return &hostClaims{in: map[string]*model.Service{}, to: map[string]*model.Service{}}
}

// add takes the next claim, and returns what is wrong with it.
func (h *hostClaims) add(claim *model.Service) []source.Problem {
	first, elsewhere := h.before(claim)
	h.remember(claim)
	if first == nil {
		return nil
	}
	p := source.Problem{
		Severity: source.Warning, Path: "spec.hosts", Value: string(claim.Host),
		Message: fmt.Sprintf("%s claims this host too and comes first", first.Key()), Want: "a host of its own",
		Code: source.DuplicateHost,
	}
	switch {
	case elsewhere:
		p.Message += "; only callers in namespace " + claim.Namespace + " call this one"
		p.Want = `exportTo ["."], or a host of its own`
	case first.Kind == claim.Kind:
		p.Want = "a host of its own, or the same resolution, location, workloadSelector, subjectAltNames and " +
			"exportTo: then the two are one service"
	}
	return []source.Problem{p}
}

// before returns an earlier claim that comes before one, nil if there is none. elsewhere tells that
// it does so in other namespaces alone.
func (h *hostClaims) before(claim *model.Service) (first *model.Service, elsewhere bool) {
	if first := h.in[claim.Namespace]; first != nil {
		return first, false
	}
	e := claim.ExportTo
	if e.All {
		if h.anyNamed != nil {
			return h.anyNamed, true
		}
		return h.firstToAll(claim.Namespace), true
	}
	for _, n := range e.Namespaces {
		switch {
		case n == claim.Namespace:
		case h.to[n] != nil:
			return h.to[n], true
		case h.firstToAll(claim.Namespace) != nil:
			return h.firstToAll(claim.Namespace), true
		}
	}
	return nil, false
}

func (h *hostClaims) firstToAll(besides string) *model.Service {
	i := slices.IndexFunc(h.toAll, func(s *model.Service) bool { return s.Namespace != besides })
	if i < 0 {
		return nil
	}
	return h.toAll[i]
}

func (h *hostClaims) remember(claim *model.Service) {
	e := claim.ExportTo
	if e.None {
		return
	}
	if h.in[claim.Namespace] == nil && e.Visible(claim.Namespace, claim.Namespace) {
		h.in[claim.Namespace] = claim
	}
	isKnown := func(s *model.Service) bool { return s.Namespace == claim.Namespace }
	if e.All && len(h.toAll) < 2 && !slices.ContainsFunc(h.toAll, isKnown) {
		h.toAll = append(h.toAll, claim)
	}
	for _, n := range e.Namespaces {
		if n != claim.Namespace && h.to[n] == nil {
			h.to[n] = claim
			if h.anyNamed == nil {
				h.anyNamed = claim
			}
		}
	}
}

// calledFrom returns the claim to a host that callers of a namespace call: one of its own before
// others; nil if there is none.
func calledFrom(namespace string, claims iter.Seq[*model.Service]) *model.Service {
	var first *model.Service
	for s := range claims {
		if s.Namespace == namespace {
			return s
		}
		if first == nil {
			first = s
		}
	}
	return first
}
