package sidecar

import "strings"

// members has what a loop knows of endpoints in collections (LEDS). Sidecars do not hold such
// endpoints, and their removals contain only names.
type members struct {
	// marks are those of endpoints that any sidecar has received, by the hashes of their names.
	// When the map is full it is cleared, and removals of the cleared endpoints are not reported.
	marks map[uint64]Mark
	// whole has the marks of first answers, by their digests.
	whole map[uint64]Mark
}

func newMembers() members { return members{marks: map[uint64]Mark{}, whole: map[uint64]Mark{}} }

// membersLimit and wholeLimit bound the maps of members.
const membersLimit, wholeLimit = 1 << 20, 1 << 12

// report reports marked members each time they arrive, and when they are removed.
func (m members) report(s *Sidecar, edits []edit) {
	l := s.loop
	if l.options.Arrived == nil {
		return
	}
	for _, e := range edits {
		switch {
		case e.entry != nil && e.entry.mark != 0:
			if len(m.marks) >= membersLimit {
				clear(m.marks)
			}
			m.marks[e.hash] = e.entry.mark
			l.options.Arrived(Arrival{Sidecar: s, Mark: e.entry.mark, At: l.readAt})
		case e.entry == nil && m.marks[e.hash] != 0:
			l.options.Arrived(Arrival{Sidecar: s, Mark: m.marks[e.hash], Removed: true, At: l.readAt})
		}
	}
}

// reportWhole reports first answers, if they are marked.
func (m members) reportWhole(s *Sidecar, answers []firstAnswer) {
	o := s.loop.options
	if o.Arrived == nil || o.Collected == nil {
		return
	}
	for _, a := range answers {
		mark, known := m.whole[a.digest]
		if !known {
			if len(m.whole) >= wholeLimit {
				clear(m.whole)
			}
			mark = o.Collected(a.assignment, a.marks)
			m.whole[a.digest] = mark
		}
		if mark != 0 {
			o.Arrived(Arrival{Sidecar: s, Mark: mark, At: s.loop.readAt})
		}
	}
}

// collections are those that a sidecar has asked for on a stream and of which nothing has come,
// with the names of their assignments. Envoy's cluster warms until the first members are there, so
// the sidecar is not in sync.
type collections map[string]string

// follow follows a change of the names that a sidecar asks for.
func (c *collections) follow(step refDiff) {
	for _, name := range step.added {
		if *c == nil {
			*c = collections{}
		}
		(*c)[name] = ""
	}
	for _, name := range step.removed {
		delete(*c, name)
	}
}

// named records by which assignments collections were named.
func (c collections) named(assignments []edit) {
	for i := 0; i < len(assignments) && len(c) > 0; i++ {
		if assignments[i].entry == nil {
			continue
		}
		for _, name := range assignments[i].entry.refers {
			if _, asked := c[name]; asked {
				c[name] = assignments[i].name
			}
		}
	}
}

// firstAnswer has all members of a collection. The digest identifies the assignment and them.
type firstAnswer struct {
	assignment string
	digest     uint64
	marks      []Mark
}

// answer returns the first answers of a response. A removal is one too: that of an empty
// collection.
func (c *collections) answer(edits []edit) (answers []firstAnswer) {
	prefix, at := "", -1
	for i := 0; i < len(edits) && len(*c)+len(answers) > 0; i++ {
		e := edits[i]
		if p := e.name[:strings.LastIndexByte(e.name, '/')+1]; p != prefix {
			prefix, at = p, -1
			assignment, asked := (*c)[p+"*"]
			if asked {
				at = len(answers)
				answers = append(answers, firstAnswer{assignment: assignment, digest: nameHash(assignment)})
				delete(*c, p+"*")
			}
		}
		if at >= 0 && e.entry != nil {
			answers[at].digest = mix(answers[at].digest, e.entry.key)
			answers[at].marks = append(answers[at].marks, e.entry.mark)
		}
	}
	if len(*c) == 0 {
		*c = nil // most sidecars wait for none most of the time
	}
	return answers
}
