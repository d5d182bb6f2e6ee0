package kube

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// step is what one entry makes of what was delivered before.
type step struct {
	entry entry // without object, problem and print: it is gone
	at    time.Time
}

// pass is a list while it is being read. It keeps what differs from what was delivered, and the names of the rest.
type pass struct {
	seen    map[source.Key]struct{}
	changed map[source.Key]step
}

func newPass() *pass {
	return &pass{seen: map[source.Key]struct{}{}, changed: map[source.Key]step{}}
}

func (p *pass) add(e entry, w *watcher) {
	p.seen[e.key] = struct{}{}
	if w.prints.get(e.key) == e.print {
		delete(p.changed, e.key)
		return
	}
	p.changed[e.key] = step{e, time.Now()}
}

func (p *pass) remove(k source.Key) {
	delete(p.seen, k)
	delete(p.changed, k)
}

// take are the changes that it has kept so far, in no order. It keeps them no longer.
func (p *pass) take() []step {
	all := slices.Collect(maps.Values(p.changed))
	clear(p.changed)
	return all
}

// inOrder sorts steps by their keys.
func inOrder(steps []step) []step {
	slices.SortFunc(steps, func(a, b step) int { return a.entry.key.Compare(b.entry.key) })
	return steps
}

// steps are what the finished list changes, and what of it was not delivered yet, in the order of keys.
func (p *pass) steps(w *watcher) []step {
	all := p.take()
	for _, k := range w.prints.in(w.namespace) {
		if _, exists := p.seen[k]; !exists {
			all = append(all, step{entry{key: k}, time.Now()})
		}
	}
	return inOrder(all)
}

// apply turns steps into what the sink is told, and notes that it was. What is in a namespace that is not served is left alone.
func (w *watcher) apply(steps []step, into *source.Event) {
	for _, s := range steps {
		k := s.entry.key
		if !w.set.serves(k.Namespace) {
			continue
		}
		before := w.prints.get(k)
		if before == s.entry.print {
			continue
		}
		w.prints.put(k, s.entry.print)
		tell(before, s, into)
	}
}

// tell adds to an event what a step changes for the sink.
func tell(before print, s step, into *source.Event) {
	now, k := s.entry.print, s.entry.key
	if (before|now)&hasObject != 0 {
		into.Changes = append(into.Changes, source.Change{Key: k, Object: s.entry.object, ObservedAt: s.at})
	}
	if (before|now)&hasReport == 0 {
		return
	}
	report := source.Report{Origin: k.String()}
	if s.entry.problem != nil {
		report.Problems = []source.Problem{*s.entry.problem}
	}
	into.Reports = append(into.Reports, report)
}
