package schedule

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// initialState converts the initial state while the source still reads the rest: a Kubernetes
// object takes several times the memory of its model, and all of them at once would be the peak of
// the process. Nothing is applied before the source is synced. It holds at most one update for each
// object.
type initialState struct {
	updates       state.LatestUpdates
	statusChanges changeQueue // for LoopOptions.Applied alone
}

func newInitialState() *initialState {
	return &initialState{updates: state.NewLatestUpdates(0), statusChanges: newChangeQueue()}
}

// readAheadSize is how many changes of the initial state are converted at a time.
const readAheadSize = 128

// readAhead converts what is pending of the initial state, if that is much.
func (l *Loop) readAhead() {
	if l.queues.pending.len() < readAheadSize {
		return
	}
	batch := l.queues.pending.take()
	l.initial.updates.Add(l.convert.convert(batch))
	for _, c := range l.statusChangesOf(batch) {
		l.initial.statusChanges.add(c, c.ObservedAt)
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
	return slices.Concat(i.updates.All(), updates), slices.Concat(i.statusChanges.take(), told)
}

// statusChangesOf returns the changes of a batch that LoopOptions.Applied is called with.
func (l *Loop) statusChangesOf(batch []source.Change) []source.Change {
	if l.o.Applied == nil {
		return nil
	}
	var told []source.Change
	for _, c := range batch {
		if s := kinds.Of(c.Key.Kind).Status; s == kinds.Conditions || s == kinds.Attachments {
			told = append(told, c)
		}
	}
	return told
}
