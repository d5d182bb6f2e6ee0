package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Proxy is a proxy as it is now.
type Proxy struct {
	Name  string // "name.namespace"
	Class resource.ClassID
	State resource.State
}

// unknownError is the error of a past of which something is not known. What is since is known.
type unknownError struct {
	since time.Time
	why   string
}

func (e *unknownError) Error() string {
	return fmt.Sprintf("nothing is known of before %s: %s", e.since.Format(time.RFC3339), e.why)
}

// ErrMissing is the error while a change is not remembered that came after all that are.
var ErrMissing = errors.New("the last change is not remembered: there were too many at once; " +
	"what follows the next one is known again")

// IsMissing tells whether a generation after all that are remembered is not.
func (s *Store) IsMissing() bool { return s.dropped.Load() != s.known.Load() }

// At returns the state that a proxy had at a time, to be shown. Of forgotten resources, as "TYPE
// NAME", the versions are known and the contents are not; the state has their names. Of a time
// before the proxy connected it is the state that its class had.
func (s *Store) At(p Proxy, at time.Time) (was resource.State, forgotten []string, err error) {
	if since := s.since(); since.IsZero() || at.Before(since) {
		return was, nil, notRemembered(since)
	}
	edits := [resource.NumTypes]map[string]*undo{}
	for t := range edits {
		edits[t] = map[string]*undo{}
	}
	err = s.eachOf(p, "", at, func(e *entry, group int) bool {
		for _, place := range e.Of[group] {
			u := &e.Undo[place]
			edits[u.Type][u.Name] = u // what is older comes later
		}
		return true
	})
	if err != nil {
		return was, nil, err
	}
	was = resource.NewState(p.State.Generation())
	store := resource.NewStore() // what is restored lacks references: it must not be served
	for t := range resource.NumTypes {
		var list []resource.Edit
		for name, u := range edits[t] {
			if !u.Kept {
				forgotten = append(forgotten, t.String()+" "+name)
			}
			list = append(list, resource.Edit{Name: name, Resource: u.restored()})
		}
		was = was.With(t, store.Apply(p.State.Set(t), list))
	}
	slices.Sort(forgotten)
	return was, forgotten, nil
}

func notRemembered(since time.Time) error {
	if since.IsZero() {
		return errors.New("nothing is remembered (LATEEN_HISTORY_BYTES says how much is)")
	}
	return fmt.Errorf("nothing is remembered of before %s", since.Format(time.RFC3339))
}

// eachOf calls f with the generations since a time that gave a proxy something, the newest first,
// and the group that it is in, until f returns false. Where only a resource is of interest it may
// leave out those without it.
func (s *Store) eachOf(p Proxy, name string, since time.Time, f func(e *entry, group int) bool) (err error) {
	if s.IsMissing() {
		return ErrMissing
	}
	t, q := tracker{proxy: p.Name, class: uint64(p.Class)}, Query{Resource: name}
	s.each(func(b *block) bool { return b.mayHave(&q, &t) }, func(e *entry) bool {
		back := s.goBack(&t, e, since, func(r *entry) bool {
			if r.Groups[0].Unknown {
				t.stop(r.At, tooMuch)
				err = &unknownError{t.end, t.why}
			}
			return err == nil && f(r, 0)
		})
		if !back || !e.At.After(since) {
			return false
		}
		group, concerned := t.back(e)
		if concerned && group >= 0 && e.Groups[group].Unknown {
			t.stop(e.At, tooMuch)
		} else if concerned && group >= 0 && !f(e, group) { // else it got no more than addresses of its own
			return false
		}
		if t.ended {
			err = &unknownError{t.end, t.why}
		}
		return !t.ended
	})
	return err
}

// restored returns the resource as it was; nil if there was none. One whose content is forgotten
// has its name alone.
func (u *undo) restored() *resource.Resource {
	if u.Before == "" {
		return nil
	}
	body := u.Body
	if !u.Kept {
		body = resource.NameOnly(u.Name)
	}
	return resource.Restored(u.Type, u.Name, body, version(u.Before), u.Placeholders)
}

// Form is a resource in a proxy's past, and the generation that gave it this form: a zero one if it
// is older than what is remembered.
type Form struct {
	Resource *resource.Resource // nil if there was none
	// Forgotten is set if the content is not remembered.
	Forgotten bool
	By        page.Generation
}

// maxForms is how many forms of a resource are looked at.
const maxForms = 1000

// Forms returns what a resource of a proxy was, the newest first, and since when all is known of
// it.
func (s *Store) Forms(p Proxy, t resource.Type, name string) (list []Form, since time.Time, err error) {
	since = s.since()
	if since.IsZero() {
		return nil, since, notRemembered(since)
	}
	list = []Form{{Resource: p.State.Set(t).Get(name)}}
	err = s.eachOf(p, name, time.Time{}, func(e *entry, group int) bool {
		i := slices.IndexFunc(e.Of[group], func(at uint32) bool {
			return e.Undo[at].Type == t && e.Undo[at].Name == name
		})
		if i < 0 {
			return true
		}
		u := &e.Undo[e.Of[group][i]]
		list[len(list)-1].By = e.Generation
		list = append(list, Form{Resource: u.restored(), Forgotten: !u.Kept})
		if len(list) == maxForms {
			since = e.At
		}
		return len(list) < maxForms
	})
	var unknown *unknownError
	if errors.As(err, &unknown) { // what is newer than that is known
		return list, unknown.since, nil
	}
	return list, since, err
}

// Named returns the resources of a type that a name may mean: the one of that name, or those that
// have it as a part.
func Named(set *resource.Set, name string) (names []string) {
	if set.Get(name) != nil {
		return []string{name}
	}
	for _, n := range set.Names() {
		if strings.Contains(n, name) {
			names = append(names, n)
		}
	}
	return names
}
