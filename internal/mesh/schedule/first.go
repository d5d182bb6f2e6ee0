package schedule

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// firstState is the initial state as far as it is converted, while a source still reads it: an object of Kubernetes takes several times
// the memory of what it means, and all of them at once would be most of what the process ever needs. Nothing of it is applied
// before everything is there. That may take for ever, so there is no more of it than objects.
type firstState struct {
	state.LatestUpdates
	told gathered // for LoopOptions.Applied alone
}

func newFirstState() *firstState {
	return &firstState{LatestUpdates: state.NewLatestUpdates(0), told: newGathered()}
}

// portion is how many changes of the initial state are converted at a time.
const portion = 128

// readAhead converts what is pending of the initial state, if that is much.
func (l *Loop) readAhead() {
	if len(l.pending.order) < portion {
		return
	}
	batch := l.pending.take()
	l.first.Add(l.convert(batch))
	for _, c := range l.told(batch) {
		l.first.told.add(c, c.ObservedAt)
	}
}

// withFirst adds what was converted of the initial state, and what LoopOptions.Applied wants to know of it, to what the first batch
// gives; to all others there is nothing to add.
func (l *Loop) withFirst(updates []state.Update, told []source.Change) ([]state.Update, []source.Change) {
	f := l.first
	if f == nil {
		return updates, told
	}
	l.first = nil
	return slices.Concat(f.All(), updates), slices.Concat(f.told.take(), told)
}

// told are the changes of a batch that LoopOptions.Applied wants to know of.
func (l *Loop) told(batch []source.Change) []source.Change {
	if l.o.Applied == nil {
		return nil
	}
	var told []source.Change
	for _, c := range batch {
		if kinds.Of(c.Key.Kind).Status == kinds.Conditions {
			told = append(told, c)
		}
	}
	return told
}
