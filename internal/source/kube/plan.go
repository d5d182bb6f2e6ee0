package kube

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// ownAtMost is how many namespaces have watches of their own: with more, one watch of all namespaces takes those over that are
// selected then, and drops what comes of others as it arrives. A few dozen namespaces of a dozen resources are some hundred
// watches, which an API server serves without noticing; it encodes an event once for all of them.
const ownAtMost = 32

// planner decides who watches which namespaces, and puts it into effect. It is used by one goroutine.
type planner struct {
	source *Source
	// wide watches all namespaces; nil while each has watches of its own.
	wide *set
	own  map[string]*set
}

// plan is what to do to get to the namespaces that are wanted.
type plan struct {
	// rebuild tells that all watches end and others begin: a wide one if wide is set, and own ones of the namespaces to start.
	rebuild, wide bool
	start         []string // namespaces that get watches of their own
	leave         []string // namespaces that leave the mesh, or those of them that the wide watch has
}

// watched is who watches what.
type watched struct {
	wide bool
	// served are the namespaces that the wide watch serves; nil for all.
	served map[string]bool
	own    map[string]bool
}

// planOf leads from what is watched to what is wanted; nil for all namespaces. A wide watch is given up when half as many
// namespaces are left as would bring it about.
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
	if all || owned > ownAtMost || now.wide && len(wanted) <= ownAtMost/2 {
		p = plan{rebuild: true, wide: len(wanted) > ownAtMost}
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
		now.served = p.wide.only
	}
	for ns := range p.own {
		now.own[ns] = true
	}
	return now
}

// follow brings about what is wanted. It returns when everything that leaves the mesh has been delivered as deleted; what enters
// follows when it is listed.
func (p *planner) follow(ctx context.Context, wanted map[string]bool) {
	s := p.source
	todo := planOf(p.watched(), wanted)
	if todo.rebuild {
		p.stop()
		if wanted != nil {
			p.forget(p.strangers(wanted))
		}
		if todo.wide {
			p.wide = s.start(ctx, "", maps.Clone(wanted), s.selectable)
		}
	}
	for _, ns := range todo.leave {
		if t := p.own[ns]; t != nil {
			t.stop()
			delete(p.own, ns)
			p.forget([]string{ns})
			continue
		}
		p.wide.exclude(ns, func() { p.forget([]string{ns}) })
	}
	for _, ns := range todo.start {
		p.own[ns] = s.start(ctx, ns, nil, s.selectable)
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

// delivered tells that all that is wanted has been listed and delivered.
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

// strangers are the namespaces of which something was delivered and that are not wanted.
func (p *planner) strangers(wanted map[string]bool) []string {
	found := map[string]bool{}
	for _, r := range p.source.selectable {
		for _, ns := range p.source.prints[r].namespaces() {
			found[ns] = !wanted[ns]
		}
	}
	maps.DeleteFunc(found, func(_ string, stranger bool) bool { return !stranger })
	return slices.Sorted(maps.Keys(found))
}

// forget delivers the deletion of all objects of namespaces that nobody watches any more, as one event.
func (p *planner) forget(namespaces []string) {
	var e source.Event
	for _, ns := range namespaces {
		for _, r := range p.source.selectable {
			prints := p.source.prints[r]
			keys := prints.in(ns)
			slices.SortFunc(keys, source.Key.Compare)
			for _, k := range keys {
				before := prints.get(k)
				prints.put(k, 0)
				tell(before, step{entry{key: k}, time.Now()}, &e)
			}
		}
	}
	p.source.send(e)
}
