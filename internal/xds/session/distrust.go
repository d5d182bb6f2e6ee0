package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// Distrusted returns the names whose reported versions say nothing about what the client has. They
// go into the Options of its next stream. A client reports
//
//   - of a refused response the versions of before, even where it took new ones or removed the
//     resource, until it has accepted another response with the same names;
//   - of endpoints that were sent again unchanged for a cluster that warms, and of virtual hosts
//     for a table that it asked for again, the version, whether they arrived or not.
func (s *Session) Distrusted() [resource.NumTypes]map[string]struct{} {
	var out [resource.NumTypes]map[string]struct{}
	for t := range resource.NumTypes {
		ts := s.of(t)
		if ts.started {
			out[t] = ts.uncertainNames()
		} else {
			out[t] = s.distrustedNames(t)
		}
	}
	return out
}

// distrustedNames returns those of Options.Distrust.
func (s *Session) distrustedNames(t resource.Type) map[string]struct{} {
	if s.rare == nil {
		return nil
	}
	return s.rare.distrusted[t]
}

// uncertainNames returns the type's names of Distrusted.
func (ts *typeState) uncertainNames() map[string]struct{} {
	var out map[string]struct{}
	for name, h := range ts.held.exceptions {
		if h.isUncertain() {
			out = with(out, name)
		}
	}
	mayRepeat := ts.typ == resource.Endpoint || ts.typ == resource.VirtualHost
	own := &ts.session.own
	for _, r := range ts.unanswered {
		for _, u := range r.upserts {
			if r.isRetry || mayRepeat && r.heldBefore(u.Name(), own).version == own.Version(u) {
				out = with(out, u.Name())
			}
		}
		for _, name := range r.removed {
			if r.isRetry {
				out = with(out, name)
			}
		}
	}
	return out
}
