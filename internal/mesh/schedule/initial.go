package schedule

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// initialState is what the source has delivered of its initial state, converted, while it still
// reads the rest: an object of Kubernetes takes several times the memory of what it means, and all
// of them at once would be most of what the process ever needs. Nothing of it is applied before
// everything is there. That may take for ever, so there is no more of it than objects.
type initialState struct {
	updates state.LatestUpdates
	told    changeQueue // for LoopOptions.Applied alone
}

func newInitialState() *initialState {
	return &initialState{updates: state.NewLatestUpdates(0), told: newChangeQueue()}
}

// portion is how many changes of the initial state are converted at a time.
const portion = 128

// readAhead converts what is pending of the initial state, if that is much.
func (l *Loop) readAhead() {
	if l.queues.pending.len() < portion {
		return
	}
	batch := l.queues.pending.take()
	l.initial.updates.Add(l.convert.convert(batch))
	for _, c := range l.told(batch) {
		l.initial.told.add(c, c.ObservedAt)
	}
}

// withInitial adds what was converted of the initial state, and what LoopOptions.Applied wants to
// know of it, to what the first batch gives; to all others there is nothing to add.
func (l *Loop) withInitial(updates []state.Update, told []source.Change) ([]state.Update, []source.Change) {
	i := l.initial
	if i == nil {
		return updates, told
	}
	l.initial = nil
	return slices.Concat(i.updates.All(), updates), slices.Concat(i.told.take(), told)
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
