package history

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// earlier is an object before all changes of it that were looked at.
type earlier struct {
	replaced

	gone   bool   // it is not there now
	now    packed // what it is, if that is known
	beyond bool   // the control plane started between the time in question and its first change
}

// Restore returns the objects that changed since a time, as they were then. Key narrows them as
// Query.Object does. Kinds that are kept whole are among them alone: those that
// CustomResourceDefinitions define. It returns an error of ctx if that ends before all that was
// reported is remembered.
func (r *Recorder) Restore(ctx context.Context, at time.Time, of source.Key) (*page.Restoration, error) {
	if err := r.Flush(ctx); err != nil {
		return nil, err
	}
	found, out, err := r.store.changedSince(at, of)
	if err != nil {
		return nil, err
	}
	err = r.do(ctx, func() {
		q := Query{Object: of}
		q.addEarlier(found, &entry{Objects: r.beside}, at)
		for key, o := range found {
			if now, known := r.objects.known[key]; known {
				o.now = now
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for key, o := range found {
		if shown := o.shown(key, at); shown.Verb != "" {
			out.Objects = append(out.Objects, shown)
		}
	}
	slices.SortFunc(out.Objects, func(a, b page.EarlierObject) int { return keyOf(&a).Compare(keyOf(&b)) })
	return out, nil
}

// changedSince returns the objects that changed since a time, in an answer that has all but them.
func (s *Store) changedSince(at time.Time, of source.Key) (map[source.Key]*earlier, *page.Restoration, error) {
	out := &page.Restoration{At: at, Since: s.since(), Objects: []page.EarlierObject{}}
	switch {
	case out.Since.IsZero() || at.Before(out.Since):
		return nil, nil, notRemembered(out.Since)
	case s.IsMissing():
		return nil, nil, ErrMissing
	}
	found, q, err := map[source.Key]*earlier{}, Query{Object: of}, error(nil)
	s.each(func(b *block) bool { return b.index.gap || b.mayHave(&q, &tracker{}) }, func(e *entry) bool {
		if !e.At.After(at) {
			return false
		}
		q.addEarlier(found, e, at)
		switch {
		case e.MoreObjects > 0:
			err = &unknownError{e.At, tooMuch}
		case e.Gap:
			err = &unknownError{e.At, isGap}
		case e.Start:
			out.Restarts = append(out.Restarts, e.At)
			for _, o := range found {
				o.beyond = true
			}
		}
		return err == nil
	})
	return found, out, err
}

// addEarlier notes the objects that changed after a time, of a generation and of before it, as they
// were.
func (q *Query) addEarlier(found map[source.Key]*earlier, e *entry, at time.Time) {
	for _, r := range slices.Backward(e.Objects) {
		before := !r.At.IsZero() && !r.At.After(at)
		if before || !kinds.Of(r.Key.Kind).Custom || q.Object != (source.Key{}) && !q.isObject(r.Key) {
			continue
		}
		o := found[r.Key]
		if o == nil {
			o = &earlier{gone: r.Gone}
			found[r.Key] = o
		}
		o.replaced, o.beyond = r, false // what is older comes later
	}
}

func keyOf(o *page.EarlierObject) source.Key {
	return source.Key{Kind: kinds.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
}

// shown says what an object was at a time. Without a verb there is nothing to do.
func (o *earlier) shown(key source.Key, at time.Time) page.EarlierObject {
	d := kinds.Of(key.Kind)
	out := page.EarlierObject{
		APIVersion: d.APIVersions()[0], Kind: d.Kind.Name(), Namespace: key.Namespace, Name: key.Name,
	}
	meta := o.Before.meta()
	switch {
	case meta.isGenerated() || o.now.meta().isGenerated():
		return out
	case o.beyond: // it may have been there, and be made anew
		out.Verb = page.Unknown
		return out
	case o.Created.After(at), o.Before.Created.After(at): // it was not there
		if !o.gone {
			out.Verb = page.Deleted
		}
		return out
	case o.Before.Meta == nil, o.Before.Partial:
		out.Verb = page.Unknown
		return out
	case o.gone:
		out.Verb = page.Created
	case !o.now.Partial && o.now.Meta != nil && bytes.Equal(o.now.Spec, o.Before.Spec):
		return out
	default:
		out.Verb = page.Changes
	}
	out.Labels, out.Annotations = meta.Labels, meta.Annotations
	out.Spec = o.Before.specTree(key.Kind)
	return out
}
