package schedule

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Foreseen is what changes would make of the mesh. Nothing of it has happened.
type Foreseen struct {
	// Delta is from what is published to what would be. It is empty if the changes make no
	// difference.
	Delta *state.Delta
	// New are the objects that there are not yet.
	New map[source.Key]bool
	// Appeared and Mended are the problems of objects, alone and with each other, that would come
	// and go.
	Appeared, Mended []source.Problem
}

// Foresee converts, applies and checks changes as if they were delivered now, and calls f with what
// they would make of the mesh. An object that is there keeps its age, and born is when a new one is
// created; zero where objects have no age, as in a directory. f runs in the goroutine of the loop,
// which waits for it.
func (l *Loop) Foresee(ctx context.Context, changes []source.Change, born time.Time, f func(Foreseen)) error {
	return l.Examine(ctx, func(w *state.Writer) {
		seen := Foreseen{New: map[source.Key]bool{}}
		for _, c := range changes {
			seen.New[c.Key] = age(w, c, born)
		}
		problems := l.o.Problems.Fork(func(appeared, mended []source.Problem) {
			seen.Appeared, seen.Mended = appeared, mended
		})
		converter := l.convert.fork(func(c source.Change, r convert.Result) {
			problems.NoteOrigin(c)
			problems.SetConversion(c.Key, r.Problems)
		})
		next, delta := w.Fork().Apply(converter.convert(changes))
		l.checker.Fork(problems).Check(next, delta)
		problems.Publish()
		seen.Delta = delta
		f(seen)
	})
}

// age gives an object the age that it has or would have, and reports whether it is new.
func age(w *state.Writer, c source.Change, born time.Time) (isNew bool) {
	if c.Object == nil {
		return false
	}
	was := w.MetaOf(c.Key)
	switch {
	case was != nil && was.Created != 0:
		c.Object.SetCreationTimestamp(metav1.Unix(was.Created, 0))
		c.Object.SetUID(types.UID(was.UID))
	case was == nil && !born.IsZero():
		c.Object.SetCreationTimestamp(metav1.NewTime(born))
	}
	return was == nil
}
