package schedule

import (
	"maps"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// leakyBucket measures how often something changes: each change adds one, and so many leak out a
// second.
type leakyBucket struct {
	rate, level float64
	at          time.Time // when that was the level
}

const (
	// endpointRate is how many changes a second are no longer pods that come and go, ten changes
	// for each, but a list that is read again or a controller that runs wild.
	endpointRate = 2000
	// fullAfter is the most that a bucket holds, in seconds of its rate, so that an overload is
	// over an eighth of a second after its last change.
	fullAfter = 1.0 / 8
)

// newLeakyBucket returns a bucket out of which so many changes leak a second.
func newLeakyBucket(rate float64) leakyBucket { return leakyBucket{rate: rate} }

func (b *leakyBucket) size() float64 { return fullAfter * b.rate }

func (b *leakyBucket) add(now time.Time) {
	b.level = min(max(0, b.level-b.rate*now.Sub(b.at).Seconds())+1, b.size())
	b.at = now
}

func (b *leakyBucket) full() bool { return b.level >= b.size() }

// drainedAt is when all changes but one will have leaked out. While more come than leak out, that
// is never.
func (b *leakyBucket) drainedAt() time.Time {
	return b.at.Add(time.Duration(max(0, b.level-1) / b.rate * float64(time.Second)))
}

// remove takes out so many.
func (b *leakyBucket) remove(changes float64) { b.level = max(0, b.level-changes) }

// namespaceLoad is how often the endpoints of a namespace change. Mostly an overload comes from one
// namespace, where a controller runs wild: then that namespace's endpoints are gathered apart, as
// istiod gathers everything, and all others leave as if there were none.
type namespaceLoad struct {
	bucket     leakyBucket
	overloaded bool
	waiting    changeQueue // empty unless it is overloaded
}

// due is when what waits leaves: when the overload is over, or has paused for the quiet period, or
// has lasted for the maximum.
func (n *namespaceLoad) due(quiet, longest time.Duration) time.Time {
	return earlier(n.bucket.drainedAt(), n.waiting.due(quiet, longest))
}

// overloads are the namespaces with endpoints that change, of which most are never overloaded.
type overloads struct {
	namespaces map[string]*namespaceLoad
	waiting    []*namespaceLoad // those with changes that wait
}

func newOverloads() overloads { return overloads{namespaces: map[string]*namespaceLoad{}} }

func (o *overloads) empty() bool { return len(o.waiting) == 0 }

func (o *overloads) of(namespace string) *namespaceLoad {
	n := o.namespaces[namespace]
	if n == nil {
		n = &namespaceLoad{bucket: newLeakyBucket(endpointRate), waiting: newChangeQueue()}
		o.namespaces[namespace] = n
	}
	return n
}

func (o *overloads) add(to *namespaceLoad, c source.Change, now time.Time) {
	if to.waiting.empty() {
		o.waiting = append(o.waiting, to)
	}
	to.waiting.add(c, now)
}

// due is when the first of them is due. It is asked when there are any.
func (o *overloads) due(quiet, longest time.Duration) time.Time {
	due := o.waiting[0].due(quiet, longest)
	for _, other := range o.waiting[1:] {
		due = earlier(due, other.due(quiet, longest))
	}
	return due
}

// oldest is when the first of their changes came. It is asked when there are any.
func (o *overloads) oldest() time.Time {
	oldest := o.waiting[0].waiting.oldest
	for _, other := range o.waiting[1:] {
		oldest = earlier(oldest, other.waiting.oldest)
	}
	return oldest
}

// take empties all of them, so that many overloaded namespaces lead to no more batches than one.
// What else waits of endpoints leaves with them, and before them: it may be older.
func (o *overloads) take() (batch []source.Change) {
	for _, n := range o.waiting {
		batch = append(batch, n.waiting.take()...)
	}
	o.waiting = o.waiting[:0]
	return batch
}

// forget lets go of those whose overload is over.
func (o *overloads) forget(now time.Time) {
	maps.DeleteFunc(o.namespaces, func(_ string, n *namespaceLoad) bool {
		return n.waiting.empty() && n.bucket.drainedAt().Before(now)
	})
}

// move notes where an object stands now.
func (o *overloads) move(p source.Place) {
	for _, n := range o.waiting {
		n.waiting.move(p)
	}
}
