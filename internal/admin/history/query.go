package history

import (
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Query says which generations are wanted. Zero fields mean any.
type Query struct {
	Since, Until time.Time
	// Object changed. One without a kind stands for any of its namespace and name, and one with a
	// namespace alone for all in it.
	Object source.Key
	// Proxy, as "name.namespace", got something. It is of Class now.
	Proxy string
	Class resource.ClassID
	// Resource is the name of a resource that changed, which may lack a virtual host's table.
	Resource string
	// Limit is how many are wanted at most.
	Limit int
}

// Select returns the generations that a query asks for, the newest first, and when the oldest that
// is remembered was published. Where a generation is too large to know, it is among them. Of a
// proxy they have what it got alone, and since is from when on that is known.
func (s *Store) Select(q Query) (found []page.Generation, since time.Time) {
	t := tracker{proxy: q.Proxy, class: uint64(q.Class)}
	s.each(func(b *block) bool { return b.mayHave(&q, &t) }, func(e *entry) bool {
		if t.ended || e.At.Before(q.Since) {
			return false
		}
		s.goBack(&t, e, e.At, func(*entry) bool { return true })
		group, concerned := t.back(e)
		if concerned && (q.Until.IsZero() || !e.At.After(q.Until)) && q.wants(e, group) {
			found = append(found, e.shown(group))
		}
		return len(found) < q.Limit
	})
	if since = s.since(); t.ended {
		since = t.end
	}
	return found, since
}

// tracker follows a proxy, or none, through its classes into the past, as far as that is known.
type tracker struct {
	proxy string
	class uint64 // that it had after the generation that is looked at next
	ended bool
	end   time.Time // if it ended: nothing is known of it before
	why   string
}

func (t *tracker) stop(at time.Time, why string) { t.ended, t.end, t.why = true, at, why }

// The reasons why nothing is known of what was before a generation.
const (
	started   = "the control plane started then"
	isGap     = "a change before that is not remembered"
	tooMuch   = "more changed then than is remembered"
	newlyMade = "no proxy of its configuration was connected"
)

// back tells whether a generation concerns the proxy, and in which of its groups that is; -1 for
// all, and for one of which that is not known. It goes on to the class that the proxy had before.
func (t *tracker) back(e *entry) (group int, concerned bool) {
	if t.proxy == "" {
		return -1, true
	}
	switch {
	case t.ended:
		return -1, false
	case t.class > e.LastClass:
		t.stop(e.At, newlyMade)
		return -1, false
	case e.Start:
		t.stop(e.At, started)
	case e.Gap:
		t.stop(e.At, isGap)
	}
	class, moved := t.class, false
	at := func(m page.MovedProxy) bool { return m.Proxy == t.proxy && m.To == class }
	if i := slices.IndexFunc(e.Moved, at); i >= 0 {
		t.class, moved = e.Moved[i].From, true
	} else if e.MoreMoved > 0 { // it may be one of those
		t.stop(e.At, tooMuch)
		return -1, true
	}
	for i := range e.Groups {
		g := &e.Groups[i]
		if moved && slices.Contains(g.Proxies, t.proxy) || !moved && slices.Contains(g.Classes, class) {
			return i, true
		}
	}
	return -1, moved
}

// wants tells whether a generation has what is asked for, in one of its groups or, with -1, in any.
func (q *Query) wants(e *entry, group int) bool {
	if q.Resource != "" && !q.isIn(e, group) {
		return false
	}
	return q.Object == (source.Key{}) || e.MoreCauses > 0 || slices.ContainsFunc(e.Causes, q.isCause)
}

func (q *Query) isIn(e *entry, group int) bool {
	changes := func(at uint32) bool { return q.isResource(&e.Undo[at]) }
	for i := range e.Groups {
		if group >= 0 && i != group {
			continue
		}
		if e.Groups[i].Unknown || slices.ContainsFunc(e.Of[i], changes) {
			return true
		}
	}
	return group < 0 && e.MoreMoved > 0
}

func (q *Query) isResource(u *undo) bool {
	return u.Name == q.Resource || u.Type == resource.VirtualHost && strings.HasSuffix(u.Name, "/"+q.Resource)
}

func (q *Query) isCause(c page.Cause) bool {
	return q.isObject(source.Key{Kind: kinds.Kind(c.Kind), Namespace: c.Namespace, Name: c.Name})
}

func (q *Query) isObject(k source.Key) bool {
	o := q.Object
	return (o.Kind == "" || o.Kind == k.Kind) && (o.Name == "" || o.Name == k.Name) &&
		(o.Namespace == "" || o.Namespace == k.Namespace)
}
