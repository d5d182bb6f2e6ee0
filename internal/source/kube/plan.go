package kube

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// maxOwnWatches is how many namespaces have watches of their own. If more are selected, one watch
// of all namespaces takes over and drops the events of the others as they arrive. 32 namespaces of
// two dozen resources are some 800 watches, which an API server serves without noticing: it encodes
// an event once for all of them.
const maxOwnWatches = 32

// planner decides who watches which namespaces, and starts and stops the watches. It is used by one
// goroutine.
type planner struct {
	source *Source
	// wide watches all namespaces; nil while each has watches of its own.
	wide *watchSet
	own  map[string]*watchSet
}

// plan is the steps from the watches that exist to those that are wanted.
type plan struct {
	// rebuild ends all watches and begins others: one of all namespaces if wide is set, else those
	// of the namespaces in start.
	rebuild, wide bool
	start         []string // namespaces that get watches of their own
	leave         []string // namespaces that leave the mesh
}

// watched says which watches exist.
type watched struct {
	wide bool
	// served are the namespaces that the wide watch serves; nil for all.
	served map[string]bool
	own    map[string]bool
}

// planOf plans the way from what is watched to what is wanted; nil for all namespaces. The wide
// watch ends when at most half of maxOwnWatches namespaces are left, so that it does not come and
// go.
func planOf(now watched, wanted map[string]bool) plan {
	if wanted == nil {
		return plan{rebuild: !now.wide || now.served != nil, wide: true}
	}
	var p plan
	for ns := range wanted {
		if !now.own[ns] && !now.served[ns] {
			p.start = append(p.start, ns)
		}
	}
	for _, set := range []map[string]bool{now.own, now.served} {
		for ns := range set {
			if !wanted[ns] {
				p.leave = append(p.leave, ns)
			}
		}
	}
	all := now.wide && now.served == nil
	owned := len(now.own) + len(p.start)
	for _, ns := range p.leave {
		if now.own[ns] {
			owned--
		}
	}
	if all || owned > maxOwnWatches || now.wide && len(wanted) <= maxOwnWatches/2 {
		p = plan{rebuild: true, wide: len(wanted) > maxOwnWatches}
		if !p.wide {
			p.start = slices.Collect(maps.Keys(wanted))
		}
	}
	slices.Sort(p.start)
	slices.Sort(p.leave)
	return p
}

func (p *planner) watched() watched {
	now := watched{wide: p.wide != nil, own: map[string]bool{}}
	if p.wide != nil {
		now.served = p.wide.served
	}
	for ns := range p.own {
		now.own[ns] = true
	}
	return now
}

// apply starts and stops watches. When it returns, everything that leaves the mesh has been
// delivered as deleted. What enters is delivered once it is listed.
func (p *planner) apply(ctx context.Context, wanted map[string]bool) {
	s := p.source
	todo := planOf(p.watched(), wanted)
	if todo.rebuild {
		p.stop()
		if wanted != nil {
			p.deliverDeletions(p.unwanted(wanted))
		}
		if todo.wide {
			p.wide = s.start(ctx, "", maps.Clone(wanted), s.selectable)
		}
	}
	for _, ns := range todo.leave {
		if t := p.own[ns]; t != nil {
			t.stop()
			delete(p.own, ns)
			p.deliverDeletions([]string{ns})
			continue
		}
		p.wide.exclude(ns, func() { p.deliverDeletions([]string{ns}) })
	}
	for _, ns := range todo.start {
		p.own[ns] = s.start(ctx, ns, nil, s.selectable)
	}
}

// reread lets all watches read what names a revision anew.
func (p *planner) reread(ctx context.Context) {
	if p.wide != nil {
		p.wide = p.source.reread(ctx, p.wide)
	}
	for ns, t := range p.own {
		p.own[ns] = p.source.reread(ctx, t)
	}
}

// stop ends all watches.
func (p *planner) stop() {
	if p.wide != nil {
		p.wide.stop()
		p.wide = nil
	}
	for _, t := range p.own { // all of them end at once
		t.cancel()
	}
	for _, t := range p.own {
		t.stop()
	}
	clear(p.own)
}

// delivered reports whether everything that is wanted has been listed and delivered.
func (p *planner) delivered() bool {
	if p.wide != nil && !p.wide.delivered() {
		return false
	}
	for _, t := range p.own {
		if !t.delivered() {
			return false
		}
	}
	return true
}

// unwanted returns the namespaces of which something was delivered and that are not wanted.
func (p *planner) unwanted(wanted map[string]bool) []string {
	found := map[string]bool{}
	for _, r := range p.source.selectable {
		for _, ns := range p.source.fingerprints.of(r).namespaces() {
			found[ns] = !wanted[ns]
		}
	}
	maps.DeleteFunc(found, func(_ string, stranger bool) bool { return !stranger })
	return slices.Sorted(maps.Keys(found))
}

// deliverDeletions delivers the deletion of all objects of namespaces that nobody watches any more,
// as one event.
func (p *planner) deliverDeletions(namespaces []string) {
	var e source.Event
	for _, ns := range namespaces {
		for _, r := range p.source.selectable {
			prints := p.source.fingerprints.of(r)
			keys := prints.keys(ns)
			slices.SortFunc(keys, source.Key.Compare)
			for _, k := range keys {
				before := prints.get(k)
				prints.put(k, 0)
				appendUpdate(before, update{entry{key: k}, time.Now()}, &e)
			}
		}
	}
	p.source.references.note(e.Changes)
	p.source.send(e)
}
