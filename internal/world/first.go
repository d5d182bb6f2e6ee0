package world

import "github.com/lateen-mesh/lateen/internal/source"

// firstState is the initial state as far as it is converted, while a source still reads it: an object of Kubernetes takes several times
// the memory of what it means, and all of them at once would be most of what the process ever needs. Nothing of it is applied
// before everything is there.
type firstState struct {
	updates []Update
	applied []source.Change // for LoopOptions.Applied alone
}

// portion is how many changes of the initial state are converted at a time.
const portion = 128

// readAhead converts what is pending of the initial state, if that is much.
func (l *Loop) readAhead() {
	if len(l.pending.order) < portion {
		return
	}
	batch := l.pending.take()
	l.first.updates = append(l.first.updates, l.convert(batch)...)
	l.first.applied = append(l.first.applied, l.told(batch)...)
}

// take gives what was converted; of several updates of one object the last one counts.
func (f *firstState) take() ([]Update, []source.Change) {
	updates, applied := f.updates, f.applied
	*f = firstState{}
	return updates, applied
}

// told are the changes of a batch that LoopOptions.Applied wants to know of.
func (l *Loop) told(batch []source.Change) []source.Change {
	if l.o.Applied == nil {
		return nil
	}
	var told []source.Change
	for _, c := range batch {
		if _, istio := c.Key.Kind.Istio(); istio {
			told = append(told, c)
		}
	}
	return told
}
