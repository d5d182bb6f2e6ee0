package session

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A client that speaks VHDS gets the heads of route tables as routes, and their virtual hosts as
// resources of their own (1.6). Envoy asks for virtual hosts once, without names, when the stream's
// first head has arrived. So it wants the virtual hosts of the tables that it subscribes to.
//
//   - A head goes before its virtual hosts: Envoy drops those of a table that it does not know, and
//     reports them later all the same.
//   - Virtual hosts follow a head that the client may not have had, changed or not, together with
//     the removal of a name that never existed. Without either, the table's listener would not open
//     (P17).
//   - Virtual hosts of a table that the client unsubscribes from are removed. Otherwise it would
//     report them although it has lost them.
//   - What changes among virtual hosts at once goes in one response, since a domain must stand in a
//     table exactly once at any time.
//
// A table never changes its form in a client. A client that reports whole tables, from another
// control plane, goes on getting whole tables.

// wants reports whether the client is to have what there is under a name.
func (ts *typeState) wants(name string) bool {
	if ts.typ != resource.VirtualHost || !ts.sub.all || ts.sub.named(name) {
		return ts.sub.has(name)
	}
	table, _ := resource.TableOf(name)
	return ts.session.types[resource.Route].sub.has(table)
}

// covers is subscription.covers for what the client wants.
func (ts *typeState) covers(set *resource.Set) bool {
	if ts.typ == resource.VirtualHost {
		routes := &ts.session.types[resource.Route]
		return ts.sub.all && routes.sub.covers(routes.set)
	}
	return ts.sub.covers(set)
}

// decideUnwanted decides about a name that the client does not want.
func (ts *typeState) decideUnwanted(h holding) decision {
	if ts.typ == resource.VirtualHost && ts.sub.all && (!h.version.IsZero() || !h.alternative.IsZero()) {
		return remove
	}
	return forget
}

// hasTableOf reports whether the class has the table of a virtual host.
func (s *Session) hasTableOf(name string) bool {
	table, _ := resource.TableOf(name)
	return s.types[resource.Route].set.Get(table) != nil
}

// hasWholeTables reports whether one of the reported versions is not that of a head.
func hasWholeTables(versions map[string]string) bool {
	for _, text := range versions {
		if v, ok := resource.ParseVersion(text); !ok || v.IsWhole() {
			return true
		}
	}
	return false
}

// serveWholeTables stops VHDS for the client, before it was sent any table on this stream.
func (s *Session) serveWholeTables() {
	s.vhds = false
	if s.state.IsNone() {
		return
	}
	for _, t := range []resource.Type{resource.Route, resource.VirtualHost} {
		s.types[t].set = s.visible(t)
	}
}

// openVirtualHosts takes the stream's first request for virtual hosts. The client may not have what
// it reports of a table that it subscribed to anew.
func (s *Session) openVirtualHosts(ts *typeState) {
	for name, h := range ts.held.exceptions {
		table, _ := resource.TableOf(name)
		if _, fresh := s.unansweredTables[table]; fresh {
			h.certainty = answerDue
			ts.held.set(name, h)
		}
	}
	for table := range s.unansweredTables {
		ts.oweAnswer(resource.NoVirtualHost(table), false)
	}
	s.unansweredTables = nil
	s.answerEmptyTables(ts)
}

// answerEmptyTables answers for tables that have no virtual hosts and of which the client reports
// none. If the last stream broke behind the head, the client waits for some.
func (s *Session) answerEmptyTables(ts *typeState) {
	reported := map[string]bool{}
	for name := range ts.held.exceptions {
		table, _ := resource.TableOf(name)
		reported[table] = true
	}
	s.types[resource.Route].sub.each(func(table string) {
		for range ts.set.Under(table) {
			return
		}
		if !reported[table] {
			ts.oweAnswer(resource.NoVirtualHost(table), false)
		}
	})
}

// awaitsVirtualHosts reports whether the client is about to ask for virtual hosts.
func (s *Session) awaitsVirtualHosts() bool {
	routes := &s.types[resource.Route].sub
	return s.vhds && !s.types[resource.VirtualHost].started && routes.base.Len()+len(routes.plus) > len(routes.minus)
}

// oweVirtualHosts has the virtual hosts of tables follow their heads.
func (s *Session) oweVirtualHosts(tables []string) {
	ts := &s.types[resource.VirtualHost]
	for _, table := range tables {
		if !ts.started {
			s.unansweredTables = with(s.unansweredTables, table)
			continue
		}
		for r := range ts.set.Under(table) {
			ts.oweAnswer(r.Name(), true)
		}
		ts.oweAnswer(resource.NoVirtualHost(table), false)
	}
}

// tableSubscribed records that the client has nothing of a table that it subscribes to now.
func (s *Session) tableSubscribed(table string) {
	ts := &s.types[resource.VirtualHost]
	if !ts.started {
		return
	}
	for r := range ts.held.base.Under(table) {
		if _, ok := ts.held.exceptions[r.Name()]; !ok {
			ts.held.set(r.Name(), holding{certainty: answerDue})
		}
	}
}

// neverHad reports whether a virtual host that the client waits for was removed before it was sent.
func (ts *typeState) neverHad(name string, h holding) bool {
	if ts.typ != resource.VirtualHost || h.certainty != answerDue ||
		!h.version.IsZero() || !h.alternative.IsZero() || ts.sub.named(name) {
		return false
	}
	table, _ := resource.TableOf(name)
	return name != resource.NoVirtualHost(table)
}

// tableUnsubscribed records what the client holds of a table that it does not want any more.
func (s *Session) tableUnsubscribed(table string) {
	delete(s.unansweredTables, table)
	ts := &s.types[resource.VirtualHost]
	if !ts.started {
		return
	}
	for r := range ts.held.base.Under(table) {
		if _, ok := ts.held.exceptions[r.Name()]; !ok {
			ts.held.set(r.Name(), holding{version: r.Version(), resource: r})
		}
	}
}

// pushVirtualHosts sends what is due of virtual hosts, behind all heads.
func (e *emission) pushVirtualHosts() {
	if heads, _ := e.session.pending(resource.Route); !heads {
		e.push(resource.VirtualHost, nil)
	}
}

// removeDomainConflicts removes virtual hosts that the client keeps because it refused the present
// version, where another virtual host takes one of their domains.
func (ts *typeState) removeDomainConflicts(b *batch) {
	if ts.typ != resource.VirtualHost || len(ts.nacks.quarantined) == 0 {
		return
	}
	taken := map[domain]bool{}
	for _, u := range slices.Concat(b.upserts, b.extras) {
		for _, d := range domainsOf(u) {
			taken[d] = true
		}
	}
	for _, name := range ts.held.exceptionNames() {
		h := ts.held.exceptions[name]
		if r := ts.set.Get(name); r == nil || !ts.refuses(r) || h.resource == nil ||
			resource.SameDomains(r, h.resource) {
			continue
		}
		if slices.ContainsFunc(domainsOf(h.resource), func(d domain) bool { return taken[d] }) {
			ts.addRemoval(b, name, h)
		}
	}
}

// domain is a domain of a table.
type domain struct{ table, name string }

func domainsOf(r *resource.Resource) []domain {
	if r == nil {
		return nil
	}
	table, _ := resource.TableOf(r.Name())
	var all []domain
	for _, d := range r.Domains() {
		all = append(all, domain{table, d})
	}
	return all
}

// endQuarantine ends the quarantine of what the class has another version of, or none. With a
// virtual host, all others of its table are tried again, since they may share its domains.
func (ts *typeState) endQuarantine() {
	tables := map[string]bool{}
	for name, v := range ts.nacks.quarantined {
		if r := ts.set.Get(name); r == nil || ts.session.own.Version(r) != v {
			delete(ts.nacks.quarantined, name)
			if table, ok := resource.TableOf(name); ok && ts.typ == resource.VirtualHost {
				tables[table] = true
			}
		}
	}
	for name := range ts.nacks.quarantined {
		if table, _ := resource.TableOf(name); tables[table] {
			delete(ts.nacks.quarantined, name)
		}
	}
	ts.trimQuarantine()
}

// trimQuarantine drops an empty map, which keeps the size that it once had.
func (ts *typeState) trimQuarantine() {
	if ts.nacks.quarantined != nil && len(ts.nacks.quarantined) == 0 {
		ts.ownNacks().quarantined = nil
	}
}

// tryAgain has a name sent again that the client refused. Call trimQuarantine after the last.
func (ts *typeState) tryAgain(name string, d certainty) {
	h, ok := ts.held.exceptions[name]
	if !ok {
		h = holding{alternative: anyVersion}
	}
	delete(ts.nacks.quarantined, name)
	ts.setHolding(name, h, d)
}

// retryQuarantined tries again what was refused of tables of which the client has accepted a part
// since. It may have been refused for a domain that something else had, which the session did not
// know. This ends, because each retry follows an acceptance.
func (ts *typeState) retryQuarantined(r *sentResponse) {
	tables := map[string]bool{}
	for _, name := range r.removed {
		table, _ := resource.TableOf(name)
		tables[table] = true
	}
	for _, u := range r.upserts {
		table, _ := resource.TableOf(u.Name())
		tables[table] = true
	}
	for _, name := range slices.Sorted(maps.Keys(ts.nacks.quarantined)) {
		if table, _ := resource.TableOf(name); !tables[table] || !ts.wants(name) {
			continue
		}
		ts.tryAgain(name, retrying)
		ts.ownNacks().retries = append(ts.nacks.retries, []string{name})
	}
	ts.trimQuarantine()
}

// handleVirtualHostNack is handleNack for virtual hosts. Those between which a domain moves are
// never sent apart, since each half would be refused; they are culprits together. A response that
// was on its way when another was refused may have been refused for that reason.
func (s *Session) handleVirtualHostNack(ts *typeState, r *sentResponse, newer []*sentResponse) {
	if len(r.upserts) == 0 {
		return
	}
	ts.correctNewer(r, newer)
	for _, n := range newer {
		n.overtaken = true
	}
	ties := ts.domainGroups(r)
	if len(ties) == 1 && !r.overtaken {
		for _, u := range ties[0].upserts {
			if !anyContains(newer, u.Name()) {
				ts.quarantine(u, r)
			}
		}
		ts.resend(r, newer, domainGroup{removed: ties[0].removed}, uncertain)
		return
	}
	suspects, rest := bisect(ts.nacks.message, ties)
	for _, group := range [][]domainGroup{suspects, rest} {
		var names []string
		for _, t := range group {
			names = append(names, ts.resend(r, newer, t, retrying)...)
		}
		if len(names) > 0 {
			ts.ownNacks().retries = append(ts.nacks.retries, names)
		}
	}
}

// resend records that a part of a refused response is to be sent again. It returns its names that
// have not changed since.
func (ts *typeState) resend(r *sentResponse, newer []*sentResponse, t domainGroup, d certainty) (names []string) {
	for _, u := range t.upserts {
		if !anyContains(newer, u.Name()) && ts.markUncertain(u, r, d) {
			names = append(names, u.Name())
		}
	}
	for _, name := range t.removed {
		if !anyContains(newer, name) {
			ts.setHolding(name, r.heldBefore(name, &ts.session.own), d)
			names = append(names, name)
		}
	}
	return names
}

// domainGroup is a part of a response whose virtual hosts share domains. It is never split.
type domainGroup struct {
	upserts []*resource.Resource
	removed []string
}

// bisect halves a response. If the client's message names virtual hosts, their groups are the first
// half.
func bisect(message string, ties []domainGroup) (suspects, rest []domainGroup) {
	for _, t := range ties {
		if slices.ContainsFunc(t.upserts, func(u *resource.Resource) bool { return isMentioned(message, u.Name()) }) {
			suspects = append(suspects, t)
		} else {
			rest = append(rest, t)
		}
	}
	if len(suspects) == 0 || len(rest) == 0 {
		half := len(ties) / 2
		return ties[:half], ties[half:]
	}
	return suspects, rest
}

// domainGroups returns the parts of a response that have no domain in common, neither before the
// response nor in it.
func (ts *typeState) domainGroups(r *sentResponse) []domainGroup {
	var parts []domainGroup
	of := map[domain]int{} // which part has it
	join := func(domains []domain) *domainGroup {
		found := -1
		for _, d := range domains {
			i, ok := of[d]
			switch {
			case !ok || i == found:
			case found < 0:
				found = i
			default:
				parts[found].upserts = append(parts[found].upserts, parts[i].upserts...)
				parts[found].removed = append(parts[found].removed, parts[i].removed...)
				parts[i] = domainGroup{}
				for d, at := range of {
					if at == i {
						of[d] = found
					}
				}
			}
		}
		if found < 0 {
			found = len(parts)
			parts = append(parts, domainGroup{})
		}
		for _, d := range domains {
			of[d] = found
		}
		return &parts[found]
	}
	for _, u := range r.upserts {
		t := join(slices.Concat(domainsOf(u), domainsOf(r.heldBefore(u.Name(), &ts.session.own).resource)))
		t.upserts = append(t.upserts, u)
	}
	for _, name := range r.removed {
		t := join(domainsOf(r.heldBefore(name, &ts.session.own).resource))
		t.removed = append(t.removed, name)
	}
	return slices.DeleteFunc(parts, func(t domainGroup) bool { return len(t.upserts)+len(t.removed) == 0 })
}
