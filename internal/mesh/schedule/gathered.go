package schedule

import (
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// gathered are changes that wait to be applied as one batch: the latest of each object, so that there are no more of them than objects.
type gathered struct {
	changes map[source.Key]source.Change
	order   []source.Key
	// first is when the oldest of them came. last is when the newest came, and stays so when they have gone.
	first, last time.Time
}

// largeBatch is how many changes a batch may have for its memory to be kept for the next one.
const largeBatch = 1024

func newGathered() gathered { return gathered{changes: map[source.Key]source.Change{}} }

func (g *gathered) empty() bool { return len(g.order) == 0 }

func (g *gathered) add(c source.Change, now time.Time) {
	if g.empty() {
		g.first = now
	}
	if earlier, known := g.changes[c.Key]; known {
		c.ObservedAt = earlier.ObservedAt // the user waits since the first of them
	} else {
		g.order = append(g.order, c.Key)
	}
	g.changes[c.Key] = c
	g.last = now
}

// take empties it: what it held comes in the order of arrival.
func (g *gathered) take() []source.Change {
	batch := make([]source.Change, len(g.order))
	for i, k := range g.order {
		batch[i] = g.changes[k]
	}
	if len(batch) > largeBatch {
		g.changes, g.order = map[source.Key]source.Change{}, nil
	}
	clear(g.changes)
	g.order = g.order[:0]
	return batch
}

// takeOf takes out what is of a namespace, in the order of arrival.
func (g *gathered) takeOf(namespace string) (batch []source.Change) {
	g.order = slices.DeleteFunc(g.order, func(k source.Key) bool {
		if k.Namespace != namespace {
			return false
		}
		batch = append(batch, g.changes[k])
		delete(g.changes, k)
		return true
	})
	return batch
}

// moved notes where an object stands now.
func (g *gathered) moved(p source.Place) { moved(g.changes, p) }

func moved(changes map[source.Key]source.Change, p source.Place) {
	if c, ok := changes[p.Key]; ok && c.Object != nil {
		c.Origin = p.Origin
		changes[p.Key] = c
	}
}

// due is when nothing has come for so long, or when the first has waited for the maximum.
func (g *gathered) due(quiet, most time.Duration) time.Time {
	until := g.last.Add(quiet)
	if latest := g.first.Add(most); latest.Before(until) {
		return latest
	}
	return until
}
