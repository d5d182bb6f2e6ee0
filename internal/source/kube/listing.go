package kube

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// update is the new state of one object.
type update struct {
	entry entry // only a key: the object is gone
	at    time.Time
}

// listing is a list while it is being read. It keeps the objects that differ from what was
// delivered, and the names of the others.
type listing struct {
	seen    map[source.Key]struct{}
	changed map[source.Key]update
	tags    map[string]tag // of a list of revision tags, by the object's name
}

func newListing() *listing {
	return &listing{seen: map[source.Key]struct{}{}, changed: map[source.Key]update{}, tags: map[string]tag{}}
}

func (p *listing) add(e entry, w *watcher) {
	p.seen[e.key] = struct{}{}
	if w.fingerprints.get(e.key) == e.fingerprint {
		delete(p.changed, e.key)
		return
	}
	p.changed[e.key] = update{e, time.Now()}
}

func (p *listing) remove(k source.Key) {
	delete(p.seen, k)
	delete(p.changed, k)
}

// takeChanged returns the changed objects so far, in no order, and drops them from the listing.
func (p *listing) takeChanged() []update {
	all := slices.Collect(maps.Values(p.changed))
	clear(p.changed)
	return all
}

// sortByKey sorts updates by their keys.
func sortByKey(steps []update) []update {
	slices.SortFunc(steps, func(a, b update) int { return a.entry.key.Compare(b.entry.key) })
	return steps
}

// updates returns what the complete list changes and was not delivered yet, in the order of keys.
func (p *listing) updates(w *watcher) []update {
	all := p.takeChanged()
	for _, k := range w.fingerprints.keys(w.namespace) {
		if _, exists := p.seen[k]; !exists {
			all = append(all, update{entry{key: k}, time.Now()})
		}
	}
	return sortByKey(all)
}

// apply adds to an event what updates change for the sink, and records their fingerprints. It
// leaves out namespaces that are not served.
func (w *watcher) apply(steps []update, into *source.Event) {
	for _, s := range steps {
		k := s.entry.key
		if !w.set.serves(k.Namespace) {
			continue
		}
		before := w.fingerprints.get(k)
		if before == s.entry.fingerprint {
			continue
		}
		w.fingerprints.put(k, s.entry.fingerprint)
		appendUpdate(before, s, into)
	}
}

// appendUpdate adds to an event what an update changes for the sink.
func appendUpdate(before fingerprint, s update, into *source.Event) {
	now, k := s.entry.fingerprint, s.entry.key
	if (before|now)&hasObject != 0 {
		into.Changes = append(into.Changes, source.Change{
			Key: k, Object: s.entry.object, Partial: s.entry.object != nil && s.entry.problem != nil, ObservedAt: s.at,
		})
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
