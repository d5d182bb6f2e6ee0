package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// Distrusted are the names whose reported versions say nothing about what the client has; they go into the Options of its
// next stream. A client reports
//
//   - of a refused response the versions of before, even where it took new ones or removed the resource, until it has
//     accepted another with the same names;
//   - of endpoints that were sent again unchanged for a cluster that warms, and of virtual hosts for a table that it asked for
//     again, the version, whether they arrived or not.
func (s *Session) Distrusted() [resource.NumTypes]map[string]struct{} {
	var out [resource.NumTypes]map[string]struct{}
	for t := range s.channels {
		c := &s.channels[t]
		if c.started {
			out[t] = c.distrusted()
		} else {
			out[t] = s.distrusts(resource.Type(t))
		}
	}
	return out
}

// distrusts are Options.Distrust.
func (s *Session) distrusts(t resource.Type) map[string]struct{} {
	if s.doubted == nil {
		return nil
	}
	return s.doubted[t]
}

func (c *channel) distrusted() map[string]struct{} {
	var out map[string]struct{}
	for name, h := range c.held.except {
		if h.doubtful() {
			out = with(out, name)
		}
	}
	for _, r := range c.sent {
		for _, u := range r.upserts {
			if r.retry || (c.typ == resource.Endpoint || c.typ == resource.VirtualHost) && r.prior(u.Name(), &c.session.own).version == c.session.own.Version(u) {
				out = with(out, u.Name())
			}
		}
		for _, name := range r.removed {
			if r.retry {
				out = with(out, name)
			}
		}
	}
	return out
}
