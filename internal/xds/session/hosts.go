package session

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A client that speaks VHDS gets route tables in pieces (1.6): their heads as routes, and their virtual hosts as resources of their
// own. Envoy asks for virtual hosts once, without names, when the stream's first head has come. So what it wants of them is
// those of the tables that it asks for, and the session sees to it that
//
//   - a head goes before its virtual hosts: Envoy drops those of a table that it does not know, and reports them later all the same;
//   - virtual hosts follow a head that the client may not have had, changed or not, and with them a removal of a name that there
//     never was: without either, the table's listener would not open (P17);
//   - those of a table that the client gives up are removed: else it would report them although it has lost them;
//   - what changes among them at once goes in one response, since a domain may not stand in a table twice, nor in none meanwhile.
//
// A table never changes its form in a client: one that comes with whole tables, from another control plane, goes on having such.

// wants tells whether the client is to have what there is under a name.
func (c *channel) wants(name string) bool {
	if c.typ != resource.VirtualHost || !c.sub.all || c.sub.named(name) {
		return c.sub.has(name)
	}
	table, _ := resource.TableOf(name)
	return c.session.channels[resource.Route].sub.has(table)
}

// covers is subscription.covers for what the client wants.
func (c *channel) covers(set *resource.Set) bool {
	if c.typ == resource.VirtualHost {
		routes := &c.session.channels[resource.Route]
		return c.sub.all && routes.sub.covers(routes.set)
	}
	return c.sub.covers(set)
}

// judgeUnwanted is judge for a name that the client does not want.
func (c *channel) judgeUnwanted(h holding) verdict {
	if c.typ == resource.VirtualHost && c.sub.all && (!h.version.IsZero() || !h.maybe.IsZero()) {
		return remove
	}
	return forget
}

// hasTableOf tells whether the class has the table that a virtual host belongs to.
func (s *Session) hasTableOf(name string) bool {
	table, _ := resource.TableOf(name)
	return s.channels[resource.Route].set.Get(table) != nil
}

// hasWholeTables tells of reported versions of route tables that not all are those of heads.
func hasWholeTables(versions map[string]string) bool {
	for _, text := range versions {
		if v, ok := resource.ParseVersion(text); !ok || v.IsWhole() {
			return true
		}
	}
	return false
}

// serveWhole ends that the client gets tables in pieces, before it has got any on this stream.
func (s *Session) serveWhole() {
	s.pieces = false
	if s.state.IsNone() {
		return
	}
	for _, t := range []resource.Type{resource.Route, resource.VirtualHost} {
		s.channels[t].set = s.visible(t)
	}
}

// openHosts is the stream's first request for virtual hosts. What the client reports of a table that it asked for anew it may not
// have.
func (s *Session) openHosts(c *channel) {
	for name, h := range c.held.except {
		table, _ := resource.TableOf(name)
		if _, fresh := s.fresh[table]; fresh {
			h.doubt = asked
			c.held.note(name, h)
		}
	}
	for table := range s.fresh {
		c.ask(resource.NoVirtualHost(table), false)
	}
	s.fresh = nil
	s.releaseTables(c)
}

// releaseTables sees to tables of which a client reports no virtual host, and which are to have none: if it was cut off behind the
// head, it waits for some.
func (s *Session) releaseTables(c *channel) {
	reported := map[string]bool{}
	for name := range c.held.except {
		table, _ := resource.TableOf(name)
		reported[table] = true
	}
	s.channels[resource.Route].sub.each(func(table string) {
		for range c.set.Under(table) {
			return
		}
		if !reported[table] {
			c.ask(resource.NoVirtualHost(table), false)
		}
	})
}

// awaitsHosts tells that the client will ask for virtual hosts.
func (s *Session) awaitsHosts() bool {
	routes := &s.channels[resource.Route].sub
	return s.pieces && !s.channels[resource.VirtualHost].started && routes.base.Len()+len(routes.plus) > len(routes.minus)
}

// oweHosts sees to it that the virtual hosts of tables follow their heads.
func (s *Session) oweHosts(tables []string) {
	c := &s.channels[resource.VirtualHost]
	for _, table := range tables {
		if !c.started {
			s.fresh = with(s.fresh, table)
			continue
		}
		for r := range c.set.Under(table) {
			c.ask(r.Name(), true)
		}
		c.ask(resource.NoVirtualHost(table), false)
	}
}

// meetHosts notes that the client has nothing of a table that it asks for now.
func (s *Session) meetHosts(table string) {
	c := &s.channels[resource.VirtualHost]
	if !c.started {
		return
	}
	for r := range c.held.base.Under(table) {
		if _, ok := c.held.except[r.Name()]; !ok {
			c.held.note(r.Name(), holding{doubt: asked})
		}
	}
}

// neverHad tells of a virtual host that the client waits for with its table that it went before it was sent.
func (c *channel) neverHad(name string, h holding) bool {
	if c.typ != resource.VirtualHost || h.doubt != asked || !h.version.IsZero() || !h.maybe.IsZero() || c.sub.named(name) {
		return false
	}
	table, _ := resource.TableOf(name)
	return name != resource.NoVirtualHost(table)
}

// leaveHosts notes what the client holds of a table that it does not want any more.
func (s *Session) leaveHosts(table string) {
	delete(s.fresh, table)
	c := &s.channels[resource.VirtualHost]
	if !c.started {
		return
	}
	for r := range c.held.base.Under(table) {
		if _, ok := c.held.except[r.Name()]; !ok {
			c.held.note(r.Name(), holding{version: r.Version(), resource: r})
		}
	}
}

// pushHosts sends what is due of virtual hosts, behind all heads.
func (e *emission) pushHosts() {
	if heads, _ := e.session.outlook(resource.Route); !heads {
		e.push(resource.VirtualHost, nil)
	}
}

// makeWay removes a virtual host that the client keeps because it refused the present one, where another takes one of its domains.
func (c *channel) makeWay(b *batch) {
	if c.typ != resource.VirtualHost || len(c.trouble.refused) == 0 {
		return
	}
	taken := map[domain]bool{}
	for _, u := range slices.Concat(b.upserts, b.others) {
		for _, d := range domainsOf(u) {
			taken[d] = true
		}
	}
	for _, name := range c.held.names() {
		h := c.held.except[name]
		if r := c.set.Get(name); r == nil || !c.refuses(r) || h.resource == nil || resource.SameDomains(r, h.resource) {
			continue
		}
		if slices.ContainsFunc(domainsOf(h.resource), func(d domain) bool { return taken[d] }) {
			c.drop(b, name, h)
		}
	}
}

// domain is one of a table.
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

// acquit ends the quarantine of what the class has another version of, or none. With one virtual host of a table all others of it are
// tried again, since they may be those that share its domains.
func (c *channel) acquit() {
	tables := map[string]bool{}
	for name, v := range c.trouble.refused {
		if r := c.set.Get(name); r == nil || c.session.own.Version(r) != v {
			delete(c.trouble.refused, name)
			if table, ok := resource.TableOf(name); ok && c.typ == resource.VirtualHost {
				tables[table] = true
			}
		}
	}
	for name := range c.trouble.refused {
		if table, _ := resource.TableOf(name); tables[table] {
			delete(c.trouble.refused, name)
		}
	}
	c.shrinkRefused()
}

// shrinkRefused lets go of an empty map, which keeps the size that it once had.
func (c *channel) shrinkRefused() {
	if c.trouble.refused != nil && len(c.trouble.refused) == 0 {
		c.troubled().refused = nil
	}
}

// appeal tries again what was refused of tables of which the client has accepted a part since: it may have been refused for a domain
// that something else had, of which the session did not know. Each acceptance may lead to another one, so that it ends.
func (c *channel) appeal(r *sent) {
	tables := map[string]bool{}
	for _, name := range r.removed {
		table, _ := resource.TableOf(name)
		tables[table] = true
	}
	for _, u := range r.upserts {
		table, _ := resource.TableOf(u.Name())
		tables[table] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.trouble.refused)) {
		if table, _ := resource.TableOf(name); !tables[table] || !c.wants(name) {
			continue
		}
		h, ok := c.held.except[name]
		if !ok {
			h = holding{maybe: anything}
		}
		delete(c.trouble.refused, name)
		c.doubt(name, h, retrying)
		c.troubled().retries = append(c.trouble.retries, []string{name})
	}
	c.shrinkRefused()
}

// refuseHosts is refuse for virtual hosts. Those that hand a domain on are never sent apart, since each half would be refused: they
// are found guilty together. A response that was on its way when another was refused may have been refused for that.
func (s *Session) refuseHosts(c *channel, r *sent, newer []*sent) {
	if len(r.upserts) == 0 {
		return
	}
	c.passOn(r, newer)
	for _, n := range newer {
		n.overtaken = true
	}
	ties := c.ties(r)
	if len(ties) == 1 && !r.overtaken {
		for _, u := range ties[0].upserts {
			if !carried(newer, u.Name()) {
				c.quarantine(u, r)
			}
		}
		c.resend(r, newer, tie{removed: ties[0].removed}, unsure)
		return
	}
	suspects, rest := suspected(c.trouble.nack, ties)
	for _, group := range [][]tie{suspects, rest} {
		var names []string
		for _, t := range group {
			names = append(names, c.resend(r, newer, t, retrying)...)
		}
		if len(names) > 0 {
			c.troubled().retries = append(c.trouble.retries, names)
		}
	}
}

// resend notes that a part of a refused response is to be sent again, and returns its names that are as they were.
func (c *channel) resend(r *sent, newer []*sent, t tie, d doubt) (names []string) {
	for _, u := range t.upserts {
		if !carried(newer, u.Name()) && c.reconsider(u, r, d) {
			names = append(names, u.Name())
		}
	}
	for _, name := range t.removed {
		if !carried(newer, name) {
			c.doubt(name, r.prior(name, &c.session.own), d)
			names = append(names, name)
		}
	}
	return names
}

// tie is a part of a response that goes as one.
type tie struct {
	upserts []*resource.Resource
	removed []string
}

// suspected halves a response; in the first part is what the client's message names, if it names anything.
func suspected(message string, ties []tie) (suspects, rest []tie) {
	for _, t := range ties {
		if slices.ContainsFunc(t.upserts, func(u *resource.Resource) bool { return mentions(message, u.Name()) }) {
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

// ties are the parts of a response that have no domain in common, neither as they were before nor as they are in it.
func (c *channel) ties(r *sent) []tie {
	var parts []tie
	of := map[domain]int{} // which part has it
	join := func(domains []domain) *tie {
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
				parts[i] = tie{}
				for d, at := range of {
					if at == i {
						of[d] = found
					}
				}
			}
		}
		if found < 0 {
			found = len(parts)
			parts = append(parts, tie{})
		}
		for _, d := range domains {
			of[d] = found
		}
		return &parts[found]
	}
	for _, u := range r.upserts {
		t := join(slices.Concat(domainsOf(u), domainsOf(r.prior(u.Name(), &c.session.own).resource)))
		t.upserts = append(t.upserts, u)
	}
	for _, name := range r.removed {
		t := join(domainsOf(r.prior(name, &c.session.own).resource))
		t.removed = append(t.removed, name)
	}
	return slices.DeleteFunc(parts, func(t tie) bool { return len(t.upserts)+len(t.removed) == 0 })
}
