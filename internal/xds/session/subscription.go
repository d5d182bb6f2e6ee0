package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// wildcard is the name that stands for all resources of a type.
const wildcard = "*"

// subscription is which names a client wants of one type: all (wildcard), and names of its own
// besides. The names are those of a base set, and exceptions: plus are names that the base lacks,
// minus are names of the base that are not wanted. A client that wants exactly what its class has
// keeps no name at all.
type subscription struct {
	all         bool
	base        *resource.Set
	plus, minus map[string]struct{}
}

// has reports whether the client wants the name.
func (s *subscription) has(name string) bool { return s.all || s.named(name) }

// named reports whether the client subscribed to the name itself, wildcard or not.
func (s *subscription) named(name string) bool {
	if _, ok := s.plus[name]; ok {
		return true
	}
	if _, ok := s.minus[name]; ok {
		return false
	}
	return s.base.Len() > 0 && s.base.Get(name) != nil
}

// covers reports, in constant time, whether the client wants every name of the set. It may also
// return false if the client does.
func (s *subscription) covers(set *resource.Set) bool {
	return s.all || (len(s.minus) == 0 && s.base.Equal(set))
}

// add subscribes to a name and reports whether it is new.
func (s *subscription) add(name string) bool {
	if s.named(name) {
		return false
	}
	if _, ok := s.minus[name]; ok {
		s.minus = without(s.minus, name)
	} else {
		s.plus = with(s.plus, name)
	}
	return true
}

// remove unsubscribes from a name and reports whether it was there.
func (s *subscription) remove(name string) bool {
	if !s.named(name) {
		return false
	}
	if _, ok := s.plus[name]; ok {
		s.plus = without(s.plus, name)
	} else {
		s.minus = with(s.minus, name)
	}
	return true
}

// each calls f for every name that the client subscribed to itself.
func (s *subscription) each(f func(name string)) {
	for r := range s.base.All() {
		if _, ok := s.minus[r.Name()]; !ok {
			f(r.Name())
		}
	}
	for name := range s.plus {
		f(name)
	}
}

// compact makes the class's set the base, if that leaves fewer exceptions than there are names. It
// costs the difference to the last set. Only the change from names to a set, which is made once,
// costs the size of the set.
func (s *subscription) compact(d *resource.Differ, t resource.Type, set *resource.Set) {
	switch {
	case s.all && s.base.Len() == 0, s.base.Equal(set):
	case s.base.Len() > 0 || s.mostOf(set):
		s.rebase(d.Diff(t, s.base, set))
	}
	if len(s.minus) > 3*s.base.Len()/4 {
		s.flatten()
	}
}

// mostOf reports whether at least half of the set's names are wanted. It looks at names only if the
// counts leave that open. So a client with few names of many, or many of few, costs nothing.
func (s *subscription) mostOf(set *resource.Set) bool {
	if 2*len(s.plus) < set.Len() || len(s.plus) > 2*set.Len() {
		return false
	}
	common := 0
	for name := range s.plus {
		if set.Get(name) != nil {
			common++
		}
	}
	return 2*common >= set.Len()
}

// rebase makes the change's target the base. The subscribed names stay the same.
func (s *subscription) rebase(c *resource.Change) {
	for _, r := range c.Upserts {
		if c.From.Len() > 0 && c.From.Namesake(r) != nil {
			continue
		}
		if _, ok := s.plus[r.Name()]; ok {
			s.plus = without(s.plus, r.Name())
		} else {
			s.minus = with(s.minus, r.Name())
		}
	}
	for _, name := range c.Removed {
		if _, ok := s.minus[name]; ok {
			s.minus = without(s.minus, name)
		} else {
			s.plus = with(s.plus, name)
		}
	}
	s.base = c.To
}

// flatten replaces the base by the names themselves.
func (s *subscription) flatten() {
	var names map[string]struct{}
	s.each(func(name string) { names = with(names, name) })
	s.base, s.plus, s.minus = resource.Empty(), names, nil
}

func (s *subscription) exceptions() int { return len(s.plus) + len(s.minus) }

func with(m map[string]struct{}, name string) map[string]struct{} {
	if m == nil {
		m = map[string]struct{}{}
	}
	m[name] = struct{}{}
	return m
}

// without removes a name and returns nil when the map is empty, because a map keeps the size that
// it once had.
func without(m map[string]struct{}, name string) map[string]struct{} {
	delete(m, name)
	if len(m) == 0 {
		return nil
	}
	return m
}

// digest distinguishes lists of names, whatever their order. A state-of-the-world client repeats
// all its names in every request, and nearly always they are those of the request before. A client
// that finds two lists with the same digest deceives only itself.
type digest struct {
	count int
	sum   uint64
}

func digestOf(names []string) digest {
	d := digest{count: len(names)}
	for _, name := range names {
		d.sum += mix(fnv1a(name))
	}
	return d
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix is MurmurHash3's finalizer. Without it the sum would be linear in the last letters: e1 and e4
// would equal e2 and e3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
