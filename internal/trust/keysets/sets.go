package keysets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
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

// sets is what a Keeper knows. Time and chance are arguments.
//
// A set has to have a place before it is fetched, and its keys have to have room before they are in
// force. Both come from the share of a namespace that names it. What has them keeps them, so what
// is new never pushes out what is in force.
type sets struct {
	refresh time.Duration
	root    string         // namespace
	chance  func() float64 // from 0 to 1
	wanted  map[string]*set
	waiting map[string]*set // those of wanted that have no place
	places  ledger          // sets
	room    ledger          // bytes of keys
	fetches map[string]int  // that run, by payer
	// shown is what the mesh has.
	shown map[string]jwks.Entry
	// delivered are the entries of the last delivery; nil if they are to be delivered again,
	// whatever the mesh has.
	delivered []jwks.Entry
}

func newSets(refresh time.Duration, root string, chance func() float64) sets {
	return sets{
		refresh: refresh, root: root, chance: chance,
		wanted: map[string]*set{}, waiting: map[string]*set{}, fetches: map[string]int{},
		places: newLedger(maxSets), room: newLedger(maxKeyBytes),
		shown: map[string]jwks.Entry{},
	}
}

// demand takes what the mesh wants of a set, and has of it. When all demands of a step are taken,
// settle gives places.
func (s *sets) demand(d Demand, now time.Time) {
	if d.Known == nil {
		delete(s.shown, d.URI)
	} else {
		s.shown[d.URI] = *d.Known
	}
	one := s.wanted[d.URI]
	switch {
	case !d.Wanted:
		if one != nil {
			s.release(one)
			delete(s.wanted, d.URI)
			delete(s.waiting, d.URI)
		}
		return
	case one == nil:
		one = &set{uri: d.URI, due: now, namedBy: map[string]int{}}
		s.wanted[d.URI], s.waiting[d.URI] = one, one
	}
	one.name(d.Names)
	if one.payer != "" && one.namedBy[one.payer] == 0 {
		s.move(one)
	}
	one.timeout = min(cmp.Or(d.Timeout, defaultTimeout), maxTimeout)
	if shown, has := s.shown[d.URI]; !has || shown != one.entry {
		s.delivered = nil
	}
}

// begin takes over what the mesh has, which another replica may have fetched in the meantime.
func (s *sets) begin(now time.Time) {
	s.delivered = nil
	for uri, one := range s.wanted {
		s.release(one)
		*one = set{uri: uri, timeout: one.timeout, namedBy: one.namedBy, due: now}
		s.waiting[uri] = one
	}
	s.settle(now)
}

// settle gives places to sets that wait for one: first to those whose keys the mesh has, whatever
// the shares are, then as long as the shares have room, by URI.
func (s *sets) settle(now time.Time) {
	for uri, one := range s.waiting {
		if shown := s.shown[uri]; shown.Keys != "" {
			s.take(one, cmp.Or(s.roomiest(one, sizeOf(shown)), first(one.namespaces())))
			s.put(one, shown)
			one.due = now.Add(time.Duration(s.chance() * float64(s.refresh)))
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(s.waiting)) {
		one := s.waiting[uri]
		for _, namespace := range one.namespaces() {
			if s.places.fits(namespace, s.root, 1) {
				s.take(one, namespace)
				one.entry = s.shown[uri] // an error stands until the set has been tried again
				break
			}
		}
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// take gives a set a place, which a namespace pays.
func (s *sets) take(one *set, payer string) {
	one.payer = payer
	s.places.add(payer, 1)
	delete(s.waiting, one.uri)
}

// put makes an entry with keys the one in force.
func (s *sets) put(one *set, e jwks.Entry) {
	s.room.add(one.payer, sizeOf(e)-one.bytes)
	one.entry, one.bytes, one.noRoom = e, sizeOf(e), false
}

// release gives back what a set has.
func (s *sets) release(one *set) {
	if _, waits := s.waiting[one.uri]; waits {
		return
	}
	s.places.add(one.payer, -1)
	s.room.add(one.payer, -one.bytes)
	s.end(one)
}

// end records that a set is no longer being fetched.
func (s *sets) end(one *set) {
	if !one.busy {
		return
	}
	one.busy = false
	if s.fetches[one.payer]--; s.fetches[one.payer] <= 0 {
		delete(s.fetches, one.payer)
	}
}

// move has another namespace pay for a set. What is in force stays, whatever its share is.
func (s *sets) move(one *set) {
	payer := cmp.Or(s.roomiest(one, one.bytes), first(one.namespaces()))
	busy := one.busy
	s.release(one)
	one.payer = payer
	s.places.add(payer, 1)
	s.room.add(payer, one.bytes)
	if one.busy = busy; busy {
		s.fetches[payer]++
	}
}

// roomiest returns a namespace that names a set and whose share has room for its bytes, beside
// those that it has: the one that pays, if it can.
func (s *sets) roomiest(one *set, bytes int) string {
	for _, namespace := range one.namespaces() {
		more := bytes
		if namespace == one.payer {
			more -= one.bytes
		}
		if s.room.fits(namespace, s.root, more) {
			return namespace
		}
	}
	return ""
}

// maxOfPayer is how many sets of one payer are fetched at a time, so that addresses that do not
// answer do not keep others waiting.
const maxOfPayer = maxFetches / 2

// canFetch reports whether a set may be fetched when it is due.
func (s *sets) canFetch(one *set) bool {
	_, waits := s.waiting[one.uri]
	return !waits && !one.busy && s.fetches[one.payer] < maxOfPayer
}

// due takes up to n sets that are to be fetched now.
func (s *sets) due(n int, now time.Time) []set {
	var list []*set
	for _, one := range s.wanted {
		if s.canFetch(one) && !one.due.After(now) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *set) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.uri, b.uri)) })
	var out []set
	for _, one := range list {
		if len(out) < n && s.canFetch(one) {
			one.busy = true
			s.fetches[one.payer]++
			out = append(out, *one)
		}
	}
	return out
}

// fetched records that a set was fetched. Without room for its keys in any share it returns an
// error for users, and the keys of before stay in use.
func (s *sets) fetched(uri, keys string, now time.Time) error {
	one := s.wanted[uri]
	if one == nil || !one.busy {
		return nil
	}
	s.end(one)
	one.failed = 0
	e := jwks.Entry{URI: uri, Keys: keys}
	payer := s.roomiest(one, sizeOf(e))
	if payer == "" {
		err := fmt.Errorf("the keys have %d bytes, for which %s have no room among the key sets of the mesh",
			sizeOf(e), namespacesOf(one))
		one.entry, one.noRoom = jwks.Entry{URI: uri, Keys: one.entry.Keys, Error: err.Error()}, true
		one.due = now.Add(spread(min(lastRetry, s.refresh), s.chance()))
		return err
	}
	if payer != one.payer {
		s.places.add(one.payer, -1)
		s.places.add(payer, 1)
		s.room.add(one.payer, -one.bytes)
		one.payer, one.bytes = payer, 0
	}
	s.put(one, e)
	one.due = now.Add(spread(s.refresh, s.chance()))
	return nil
}

// maxNamed is how many namespaces a message names.
const maxNamed = 3

func namespacesOf(one *set) string {
	list := one.namespaces()
	if more := len(list) - maxNamed; more > 0 {
		return fmt.Sprintf("namespaces %s and %d others", strings.Join(list[:maxNamed], ", "), more)
	}
	if len(list) == 1 {
		return "the policies of namespace " + list[0]
	}
	return "namespaces " + strings.Join(list, ", ")
}

// failed records that a set could not be fetched. Keys of before stay in use. It returns in how
// long it is tried again; false if nobody wants it any more.
func (s *sets) failed(uri string, err error, now time.Time) (time.Duration, bool) {
	one := s.wanted[uri]
	if one == nil || !one.busy {
		return 0, false
	}
	s.end(one)
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
// end of a fetch wakes whoever waits.
func (s *sets) wait(free int, now time.Time) time.Duration {
	wait := idle
	if free <= 0 {
		return wait
	}
	for _, one := range s.wanted {
		if s.canFetch(one) {
			wait = min(wait, max(0, one.due.Sub(now)))
		}
	}
	return wait
}

// entries returns what the mesh is to have, sorted by URI, and how many sets have no place or no
// room. Errors have shares of their own, of which the first by URI are told.
func (s *sets) entries() (list []jwks.Entry, left int) {
	told := newLedger(maxErrorBytes)
	for _, uri := range slices.Sorted(maps.Keys(s.wanted)) {
		one := s.wanted[uri]
		e := one.entry
		if _, waits := s.waiting[uri]; waits {
			left++
			e = jwks.Entry{URI: uri, Error: namespacesOf(one) + " have no place for another one among the " +
				strconv.Itoa(maxSets) + " key sets of the mesh, of which one namespace may have a quarter"}
		} else if one.noRoom {
			left++
		}
		if e.Error != "" && !tell(&told, one, s.root, quoted(uri)+quoted(e.Error)+frame) {
			e.Error = ""
		}
		if e.Keys != "" || e.Error != "" {
			list = append(list, e)
		}
	}
	return list, left
}

// tell takes room for an error from the share of a namespace that names the set.
func tell(told *ledger, one *set, root string, bytes int) bool {
	for _, namespace := range one.namespaces() {
		if told.fits(namespace, root, bytes) {
			told.add(namespace, bytes)
			return true
		}
	}
	return false
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
