package keysets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

// Bounds of what is kept. All entries stand in one ConfigMap, which may have 1 MiB.
const (
	maxSets  = 128
	maxBytes = 900 << 10
)

// Times of fetching.
const (
	defaultRefresh = 20 * time.Minute
	defaultTimeout = 5 * time.Second
	maxTimeout     = 30 * time.Second
	firstRetry     = time.Second
	lastRetry      = 5 * time.Minute
	idle           = time.Hour // until somebody looks again where nothing is due
)

// set is a set of keys that the mesh wants.
type set struct {
	uri     string
	timeout time.Duration
	entry   jwks.Entry // what is known; with neither Keys nor Error, nothing yet
	due     time.Time
	failed  int // attempts in a row
	busy    bool
}

// sets is what a Keeper knows. Time and chance are arguments.
type sets struct {
	refresh time.Duration
	chance  func() float64 // from 0 to 1
	wanted  map[string]*set
	// shown is what the mesh has.
	shown map[string]jwks.Entry
	// delivered are the entries of the last delivery; nil if they are to be delivered again,
	// whatever the mesh has.
	delivered []jwks.Entry
}

func newSets(refresh time.Duration, chance func() float64) sets {
	return sets{refresh: refresh, chance: chance, wanted: map[string]*set{}, shown: map[string]jwks.Entry{}}
}

// demand takes what the mesh wants of a set, and has of it.
func (s *sets) demand(d Demand, now time.Time) {
	if d.Known == nil {
		delete(s.shown, d.URI)
	} else {
		s.shown[d.URI] = *d.Known
	}
	one := s.wanted[d.URI]
	switch {
	case !d.Wanted:
		delete(s.wanted, d.URI)
		return
	case one == nil:
		one = &set{uri: d.URI, due: now}
		s.wanted[d.URI] = one
		s.adopt(one, now)
	}
	one.timeout = min(cmp.Or(d.Timeout, defaultTimeout), maxTimeout)
	if shown, has := s.shown[d.URI]; !has || shown != one.entry {
		s.delivered = nil
	}
}

// begin takes over what the mesh has, which another replica may have fetched in the meantime.
func (s *sets) begin(now time.Time) {
	s.delivered = nil
	for _, one := range s.wanted {
		*one = set{uri: one.uri, timeout: one.timeout, due: now}
		s.adopt(one, now)
	}
}

// adopt takes over what the mesh has of a set. Keys stay in use, and are fetched again within the
// time of a refresh. An error stands until the set has been tried again.
func (s *sets) adopt(one *set, now time.Time) {
	one.entry = s.shown[one.uri]
	if one.entry.Keys != "" {
		one.due = now.Add(time.Duration(s.chance() * float64(s.refresh)))
	}
}

// inOrder returns the sets that are kept before others: those with keys, then by URI. So sets that
// come later push none out.
func (s *sets) inOrder() []*set {
	return slices.SortedFunc(maps.Values(s.wanted), func(a, b *set) int {
		if (a.entry.Keys != "") != (b.entry.Keys != "") {
			if a.entry.Keys != "" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.uri, b.uri)
	})
}

// due takes up to n sets that are to be fetched now.
func (s *sets) due(n int, now time.Time) []set {
	var list []*set
	for i, one := range s.inOrder() {
		if i < maxSets && !one.busy && !one.due.After(now) {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b *set) int { return a.due.Compare(b.due) })
	var out []set
	for _, one := range list[:min(max(n, 0), len(list))] {
		one.busy = true
		out = append(out, *one)
	}
	return out
}

// fetched records that a set was fetched.
func (s *sets) fetched(uri, keys string, now time.Time) {
	one := s.wanted[uri]
	if one == nil {
		return
	}
	one.busy, one.failed = false, 0
	one.entry = jwks.Entry{URI: uri, Keys: keys}
	one.due = now.Add(spread(s.refresh, s.chance()))
}

// failed records that a set could not be fetched. Keys of before stay in use. It returns in how
// long it is tried again; false if nobody wants it any more.
func (s *sets) failed(uri string, err error, now time.Time) (time.Duration, bool) {
	one := s.wanted[uri]
	if one == nil {
		return 0, false
	}
	one.busy = false
	if one.entry.Keys == "" {
		one.entry = jwks.Entry{URI: uri, Error: err.Error()}
	}
	const doublings = 10 // more than lastRetry has
	wait := min(firstRetry<<min(one.failed, doublings), lastRetry, s.refresh)
	one.failed++
	wait = spread(wait, s.chance())
	one.due = now.Add(wait)
	return wait, true
}

// spread varies a time by a tenth, so that what began together does not stay together.
func spread(d time.Duration, chance float64) time.Duration {
	return d + time.Duration((chance-0.5)/5*float64(d))
}

// wait returns in how long the next set can be fetched. Without a free place that is unknown: the
// end of a fetch wakes whoever waits. Sets beyond the bound never are due.
func (s *sets) wait(free int, now time.Time) time.Duration {
	wait := idle
	if free <= 0 {
		return wait
	}
	for i, one := range s.inOrder() {
		if i < maxSets && !one.busy {
			wait = min(wait, max(0, one.due.Sub(now)))
		}
	}
	return wait
}

// entries returns what the mesh is to have, sorted by URI, and how many sets it cannot have.
func (s *sets) entries() (list []jwks.Entry, left int) {
	size := 0
	for i, one := range s.inOrder() {
		e := one.entry
		if i >= maxSets {
			e = jwks.Entry{URI: one.uri, Error: fmt.Sprintf("is one of more than %d sets of keys of the mesh", maxSets)}
		}
		if e == (jwks.Entry{}) {
			continue // it is under way
		}
		const frame = 200 // the name of the entry and its syntax
		size += len(e.URI) + len(e.Keys) + len(e.Error) + frame
		if i >= 2*maxSets || size > maxBytes {
			left++
			continue
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b jwks.Entry) int { return strings.Compare(a.URI, b.URI) })
	return list, left
}

// news returns the entries if the mesh does not have them, and they are not on their way.
func (s *sets) news() (list []jwks.Entry, left int, news bool) {
	list, left = s.entries()
	shown := slices.SortedFunc(maps.Values(s.shown), func(a, b jwks.Entry) int { return strings.Compare(a.URI, b.URI) })
	if slices.Equal(list, shown) || s.delivered != nil && slices.Equal(list, s.delivered) {
		return nil, 0, false
	}
	s.delivered = append([]jwks.Entry{}, list...)
	return list, left, true
}

// undelivered records that the entries did not get to the mesh.
func (s *sets) undelivered() { s.delivered = nil }
