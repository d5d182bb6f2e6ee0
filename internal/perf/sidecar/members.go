package sidecar

// members are the marks of those members of collections that came to any sidecar of a loop, by the hashes of their names: members are not
// held, and of one that is removed only the name is said. Beyond the limit all are forgotten, and the end of those is not told.
type members map[uint64]Mark

const membersLimit = 1 << 20

// tell reports members that are marked, when they come, be it again, and when they are removed.
func (m members) tell(s *Sidecar, edits []edit) {
	l := s.loop
	if l.options.Arrived == nil {
		return
	}
	for _, e := range edits {
		switch {
		case e.entry != nil && e.entry.mark != 0:
			if len(m) >= membersLimit {
				clear(m)
			}
			m[e.hash] = e.entry.mark
			l.options.Arrived(Arrival{Sidecar: s, Mark: e.entry.mark, At: l.readAt})
		case e.entry == nil && m[e.hash] != 0:
			l.options.Arrived(Arrival{Sidecar: s, Mark: m[e.hash], Removed: true, At: l.readAt})
		}
	}
}
