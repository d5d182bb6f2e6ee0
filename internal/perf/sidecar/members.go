package sidecar

// members has the marks of endpoints in collections (LEDS) that any sidecar of a loop has received,
// by the hashes of their names. Sidecars do not hold such endpoints, and their removals contain
// only names. When the map is full it is cleared, and removals of the cleared endpoints are not
// reported.
type members map[uint64]Mark

const membersLimit = 1 << 20

// report reports marked members each time they arrive, and when they are removed.
func (m members) report(s *Sidecar, edits []edit) {
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
