package scope

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// egress reports whether the Sidecar in force imports a host of a namespace. Without a Sidecar all
// are.
func (s *Scope) egress(namespace string, host model.Host) bool {
	if s.sidecar == nil || len(s.sidecar.Egress) == 0 {
		return true
	}
	covers := func(h model.ScopedHost) bool { return s.own(h).Covers(namespace, host) }
	for i := range s.sidecar.Egress {
		l := &s.sidecar.Egress[i]
		if slices.ContainsFunc(l.Hosts, covers) && !slices.ContainsFunc(l.Hidden, covers) {
			return true
		}
	}
	return false
}

// egressRoutes reports whether the Sidecar in force imports routes for a host. Routes for
// "*.example.com" are in force for an imported "a.example.com".
func (s *Scope) egressRoutes(namespace string, host model.Host) bool {
	if s.sidecar == nil || len(s.sidecar.Egress) == 0 {
		return true
	}
	overlaps := func(h model.ScopedHost) bool { return s.own(h).Overlaps(namespace, host) }
	return slices.ContainsFunc(s.sidecar.Egress, func(l model.EgressListener) bool {
		return slices.ContainsFunc(l.Hosts, overlaps)
	})
}

// Egress returns what the Sidecar in force imports, with "." replaced by the class's namespace. It
// returns all if nothing is limited.
func (s *Scope) Egress() (listeners []model.EgressListener, all bool) {
	s.classOnly()
	if s.sidecar == nil || len(s.sidecar.Egress) == 0 {
		return nil, true
	}
	for _, l := range s.sidecar.Egress {
		listeners = append(listeners, model.EgressListener{Hosts: s.ownAll(l.Hosts), Hidden: s.ownAll(l.Hidden)})
	}
	return listeners, false
}

func (s *Scope) ownAll(hosts []model.ScopedHost) (own []model.ScopedHost) {
	for _, h := range hosts {
		own = append(own, s.own(h))
	}
	return own
}

// own replaces "." by the class's namespace. A Sidecar of the root namespace means each namespace
// that it is for.
func (s *Scope) own(h model.ScopedHost) model.ScopedHost {
	if h.Namespace == "." {
		h.Namespace = s.class.Namespace
	}
	return h
}

// EgressListeners returns the listeners of their own that the Sidecar in force has for calls.
func (s *Scope) EgressListeners() []*model.EgressListener {
	if s.sidecar == nil {
		return nil
	}
	return s.sidecar.OwnListeners()
}

// EgressPort returns the listener of the Sidecar in force that has a port; nil if none has.
func (s *Scope) EgressPort(port uint16) *model.EgressListener {
	if s.sidecar == nil || port == 0 {
		return nil
	}
	i := slices.IndexFunc(s.sidecar.Egress, func(l model.EgressListener) bool { return l.Port == port })
	if i < 0 {
		return nil
	}
	return &s.sidecar.Egress[i]
}

// LimitsPorts reports whether the Sidecar in force shows hosts at some ports, or by some
// listeners, alone.
func (s *Scope) LimitsPorts() bool { return limitsPorts(s.sidecar) != nil }

// limitsPorts returns a Sidecar if it has listeners of their own.
func limitsPorts(sidecar *model.Sidecar) *model.Sidecar {
	if sidecar != nil && slices.ContainsFunc(sidecar.Egress, func(l model.EgressListener) bool { return l.IsOwn() }) {
		return sidecar
	}
	return nil
}

// Shows reports whether a listener of EgressListeners shows a host of a namespace. nil stands for
// the rest of the Sidecar, or for all that is visible without one. What a route leads to is shown
// by no listener of a Sidecar that has some of their own.
func (s *Scope) Shows(l *model.EgressListener, namespace string, host model.Host) bool {
	covers := func(h model.ScopedHost) bool { return s.pairs(h, namespace) && h.Host.Covers(host) }
	return s.anyListener(l, func(l *model.EgressListener) bool {
		return slices.ContainsFunc(l.Hosts, covers) && !slices.ContainsFunc(l.Hidden, covers)
	})
}

// ShowsRoutes is Shows for the hosts of a VirtualService that no service has.
func (s *Scope) ShowsRoutes(l *model.EgressListener, v *model.VirtualService) bool {
	return s.anyListener(l, func(l *model.EgressListener) bool {
		return slices.ContainsFunc(l.Hosts, func(h model.ScopedHost) bool {
			return s.pairs(h, v.Namespace) && slices.ContainsFunc(v.Hosts, h.Host.Overlaps)
		})
	})
}

// pairs reports whether the namespace of a listed host is this one.
func (s *Scope) pairs(h model.ScopedHost, namespace string) bool {
	if h.Namespace == "." {
		return s.IsOwn(namespace)
	}
	return h.Namespace == "*" || h.Namespace == namespace
}

// anyListener reports whether the given listener, or with nil any that is not of its own, is such a
// one.
func (s *Scope) anyListener(only *model.EgressListener, is func(*model.EgressListener) bool) bool {
	switch {
	case !s.LimitsPorts():
		return true
	case only != nil:
		return is(only)
	}
	return slices.ContainsFunc(s.sidecar.Egress, func(l model.EgressListener) bool { return !l.IsOwn() && is(&l) })
}
