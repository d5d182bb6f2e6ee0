package sidecar

// extra tells that nobody waits for a type.
func (t Type) extra() bool { return t == Secret || t == NameTable }

// openExtras asks for what nobody waits for: agents ask before Envoy asks for listeners.
func (s *Sidecar) openExtras() {
	if s.loop.options.NameTable && !s.asked.has(NameTable) {
		s.open(NameTable)
	}
	if len(s.loop.options.Secrets) > 0 && !s.asked.has(Secret) {
		s.open(Secret)
	}
}

// names makes a request say all that is asked for of a type, if not all that there is.
func (s *Sidecar) names(r *request, t Type) {
	if t == Secret {
		r.names = s.loop.options.Secrets
	} else if parent, named := t.parent(); named {
		r.subscribes(s.tables[parent])
	}
}
