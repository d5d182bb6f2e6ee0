package sidecar

// isOptional reports whether Envoy starts without the type. Sync does not depend on it.
func (t Type) isOptional() bool { return t == Secret || t == NameTable }

// openOptional subscribes to optional types. Agents do so before Envoy subscribes to listeners.
func (s *Sidecar) openOptional() {
	if s.loop.options.NameTable && !s.requested.has(NameTable) {
		s.open(NameTable)
	}
	if len(s.loop.options.Secrets) > 0 && !s.requested.has(Secret) {
		s.open(Secret)
	}
}

// setNames fills in all names of a type that the sidecar subscribes to. A wildcard has none.
func (s *Sidecar) setNames(r *request, t Type) {
	if t == Secret {
		r.names = s.loop.options.Secrets
	} else if parent, named := t.parent(); named {
		r.subscribeAll(s.tables[parent])
	}
}
