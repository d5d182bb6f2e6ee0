package mutants

// fault is an edge that is cut: text, which occurs once in a function, is left out or replaced.
type fault struct {
	file, function string
	what           string
	text           string
	// nth of the occurrences of text, from 1; 0 if there is but one.
	nth int
	// instead is the expression in place of the text; with none, text is a statement that is left out.
	instead string
}

func in(file, function string, faults ...fault) []fault {
	for i := range faults {
		faults[i].file, faults[i].function = file, function
	}
	return faults
}

// without leaves a statement out.
func without(what, statement string) fault { return fault{what: what, text: statement} }

// instead replaces an expression. Both are evaluated: neither may have an effect.
func instead(what, expression, by string) fault {
	return fault{what: what, text: expression, instead: by}
}

// nth is a fault at the nth of several occurrences of its text.
func nth(n int, f fault) fault {
	f.nth = n
	return f
}

func faults() []fault {
	var all []fault
	for _, list := range [][][]fault{impactFaults, classFaults, portFaults, scopeFaults, indexFaults, joinFaults, checkFaults} {
		for _, l := range list {
			all = append(all, l...)
		}
	}
	return all
}

// impactFaults: a delta does not reach what may depend on it.
var impactFaults = [][]fault{
	in("view/impact.go", "impactOf",
		without("a changed Service touches its host", "m.claims(svc.Host)"),
		without("a changed VirtualService touches what it routes", "m.routes(vs)"),
		without("a changed VirtualService touches its destinations", "m.claims(h)"),
		without("a changed DestinationRule touches its hosts", "m.rule(r)"),
		without("changed endpoints touch their host", "m.endpointsOf(e)"),
	),
	in("view/impact.go", "impact.both",
		instead("the world before counts", "m.delta.From", "m.delta.To"),
		instead("the world after counts", "m.delta.To", "m.delta.From"),
	),
	in("view/impact.go", "impact.claims",
		without("a host whose claimants changed is compiled", "m.hosts[host] = true"),
		without("the TCP ports of a host are touched with it", "m.portsOf(w, host)"),
		without("routes to a host are touched with it", "m.routesTo(host)"),
	),
	in("view/impact.go", "impact.routesTo", without("routes to a host are touched", "m.routes(vs)")),
	in("view/impact.go", "impact.routes",
		without("gateways hear of a VirtualService", "m.virtual[vs] = true"),
		without("a host that only a VirtualService has", "m.hosts[pattern] = true"),
		without("hosts below a VirtualService's wildcard", "m.hosts[host] = true"),
		without("TCP ports of hosts that a VirtualService routes", "m.portsOf(w, host)"),
	),
	in("view/impact.go", "impact.portsOf", without("TCP ports of services", "m.addPort(p.Port, host)")),
	in("view/impact.go", "impact.addPort", without("the hosts that touch a port", "m.ports[port][host] = true")),
	in("view/impact.go", "impact.rule", without("hosts of a DestinationRule", "m.claims(host)")),
	in("view/impact.go", "impact.endpointsOf",
		without("endpoints alone", "m.endpoints[e.Host] = true"),
		without("first and last endpoints change how a service is called", "m.claims(e.Host)"),
	),
	in("view/impact.go", "impact.units",
		without("units of hosts", "units[unit{kind: unitHost, host: h}] = true"),
		without("hosts for which a name is an alias", "units[unit{kind: unitHost, host: full}] = true"),
		without("units of endpoints", "units[unit{kind: unitEndpoints, host: h}] = true"),
		instead("a Sidecar in force touches the sidecar's own", "m.own", "false"),
		nth(1, instead("guards touch the sidecar's own", "m.guards(from, to)", "false")),
		nth(2, instead("guards touch the gateway's ports", "m.guards(from, to)", "false")),
		without("units of gateways as they were", "m.gatewayUnits(from, units)"),
		without("units of gateways as they are", "m.gatewayUnits(to, units)"),
	),
	in("view/impact.go", "impact.guards",
		instead("a guard of before", "from.Guarded(p.Old)", "false"),
		instead("a guard as it is", "to.Guarded(p.New)", "false"),
	),
	in("view/impact.go", "impact.gatewayUnits",
		without("a changed Gateway touches its ports", "addGateway(s, g, units)"),
		without("a changed Gateway touches the destinations behind it", "m.gatewayHosts(s, g, units)"),
		without("a changed VirtualService touches its hosts at Gateways", "addBound(s, g, vs, units)"),
	),
	in("view/impact.go", "impact.gatewayHosts", without("destinations behind a Gateway", "units[unit{kind: unitHost, host: h}] = true")),
	in("view/egress.go", "impact.of",
		instead("a changed mesh configuration touches everything", "m.delta.Mesh", "false"),
		instead("another Sidecar in force touches what it lets in", "from.Sidecar == to.Sidecar", "true"),
		instead("a Sidecar that limits what another does not touches everything", "!narrow", "false"),
		without("another Sidecar in force touches the sidecar's own", "of.own = true"),
		without("what a Sidecar lets in or no longer does", "of.listed(w, h)"),
	),
	in("view/egress.go", "egressChange",
		without("what the Sidecar before let in", "sides[h] |= 1"),
		without("what the Sidecar now lets in", "sides[h] |= 2"),
	),
	in("view/egress.go", "impact.listed",
		nth(1, without("a host that a Sidecar lists", "m.claims(h.Host)")),
		nth(1, without("routes for a host that a Sidecar lists", "m.listedRoutes(vs, h)")),
		without("hosts below a Sidecar's wildcard", "m.claims(host)"),
		nth(2, without("routes below a Sidecar's wildcard", "m.listedRoutes(vs, h)")),
		without("hosts below a Sidecar's wildcard in a namespace", "m.claims(svc.Host)"),
		nth(3, without("routes below a Sidecar's wildcard in a namespace", "m.listedRoutes(vs, h)")),
	),
	in("view/egress.go", "impact.listedRoutes",
		without("routes that a Sidecar lets in", "m.routes(vs)"),
		without("destinations of routes that a Sidecar lets in", "m.claims(host)"),
	),
	in("view/gateway.go", "addGateway",
		without("VirtualServices bound to a Gateway", "addBound(s, g, vs, units)"),
	),
}

// classFaults: a class or a proxy does not take over what was found.
var classFaults = [][]fault{
	in("view/class.go", "class.step",
		without("conflicts of before are forgotten", "c.settled(comp, u)"),
		without("TCP listeners", "c.stepPort(comp, port, m.ports[port], to, e)"),
		without("what a unit no longer has is removed", "e.remove(old)"),
		without("what a unit has is put", "e.put(s)"),
		without("the next step starts from this one", "c.scope = to"),
	),
	in("view/class.go", "class.fill",
		without("equal sets are no change", "c.state = old"),
		without("all units are compiled", "e.put(slot)"),
		without("all ports are compiled", "c.fillPort(comp, s, port, e)"),
		without("conflicts of before are forgotten", "c.settledAll(comp)"),
	),
	in("view/class.go", "class.apply",
		without("a head touches its table", "for name := range e.heads {\n\t\ttouched[name] = true\n\t}"),
		without("a virtual host touches its table", "for name := range e.vhosts {\n\t\ttouched[name] = true\n\t}"),
		instead("equal sets are no change", "!next.Sets[t].Equal(c.state.Sets[t])", "true"),
	),
	in("view/class.go", "class.editTable",
		without("a table without head is removed", "e.sets[Route] = append(e.sets[Route], Edit{Name: name})"),
	),
	in("view/class.go", "edits.remove", without("a head goes", "e.heads[s.name] = nil")),
	in("view/class.go", "listed",
		instead("slots are told apart by type", "s.typ == o.typ", "true"),
		instead("slots are told apart by name", "s.name == o.name", "true"),
	),
	in("view/compile.go", "Compiler.Advance",
		without("proxies join the present world", "c.world = d.To"),
		without("endpoint sets are kept up", "c.comp.groups.update(e)"),
		without("proxies move", "step.Moved = c.move(d)"),
		without("changed classes are told", "step.Changed = append(step.Changed, ClassState{Class: cl.id, State: cl.state})"),
	),
	in("view/compile.go", "Compiler.release", without("a class without proxies goes", "delete(c.classes, old.key)")),
	in("view/compile.go", "Compiler.place",
		without("a proxy leaves its class for another", "c.release(m.class)"),
		without("a class is found again", "c.classes[key] = cl"),
	),
	in("view/compile.go", "Compiler.move",
		instead("what moves a proxy", "!scope.Moves(d, proxy)", "true"),
		instead("another class is a move", "m.class != before", "false"),
		instead("other addresses are a move", "m.own != own", "false"),
	),
	in("view/members.go", "members.touched",
		nth(1, without("selectors may move all", "add(ms.all())")),
		without("a changed Pod may move its proxy", "add(slices.Values(ms.byNamespace[w.Namespace][w.Name]))"),
		without("a changed Service may move proxies of its namespace", "add(ms.in(s.Namespace))"),
	),
	in("view/groups.go", "groups.get", without("sets of a service are known by it", "g.of[id] = append(g.of[id], key)")),
	in("view/groups.go", "groups.update",
		without("endpoints go", "edits[e.Locality] = append(edits[e.Locality], Edit{Name: string(id)})"),
		without("endpoints come", "edits[e.Locality] = append(edits[e.Locality], Edit{Name: string(id), Resource: r})"),
		without("a set is replaced", "g.known[key] = g.apply(g.known[key], edits)"),
	),
	in("view/groups.go", "groups.apply",
		without("localities that did not change stay", "sets[l.locality] = l.members"),
		instead("localities without endpoints go", "sets[locality].Len() > 0", "true"),
	),
}

// portFaults: who has a TCP port is not kept up.
var portFaults = [][]fault{
	in("view/port.go", "class.owner", instead("an owner that is not the first is remembered", "kept != nil", "false")),
	in("view/port.go", "class.keep",
		without("an owner that is the first again is forgotten", "delete(c.owners, port)"),
		without("an owner that is not the first is remembered", "c.owners[port] = owner"),
	),
	in("view/port.go", "class.fillPort",
		without("the owner is remembered", "c.keep(s, port, owner)"),
		without("who does not have a port is told", "c.reportPort(comp, s, port, owner)"),
	),
	in("view/port.go", "class.stepPort",
		without("the next owner is remembered", "c.keep(to, port, now)"),
		instead("another owner changes the listener", "old != now", "false"),
		instead("the owner changes the listener", "now.Host == h", "false"),
		instead("a TLS service of before changes the listener", "before.Protocol == model.TLS", "false"),
		instead("a TLS service changes the listener", "after.Protocol == model.TLS", "false"),
		without("who touches a port is told that it is not theirs", "c.reportLoser(comp, to, h, port, now)"),
		without("all are told who has a port now", "c.reportPort(comp, to, port, now)"),
		without("a listener goes", "e.remove(slot{typ: Listener, name: tcpListener(port)})"),
		without("a listener comes", "e.put(s)"),
	),
	in("view/port.go", "class.reportLoser", without("what was told is forgotten", "c.settled(comp, u)")),
	in("view/port.go", "nextOwner",
		instead("an owner that was touched may lose a port", "hosts[old.Host]", "false"),
		without("an owner that was not touched keeps a port", "best = old"),
		without("who touches a port may have it", "best = svc"),
		instead("who comes first has a port", "precedes(svc, best)", "false"),
		nth(2, instead("an owner that lost a port passes it on", "!lost", "true")),
		instead("the next in the total order", "claimsTCP(s, svc, port)", "false"),
	),
	in("view/conflicts.go", "class.settled",
		without("a conflict that is settled is told no more", "comp.conflicts.Drop(x)"),
		without("conflicts are known by what they belong to", "delete(c.conflicts, u)"),
	),
}

// scopeFaults: a proxy is not asked whether it belongs to another class.
var scopeFaults = [][]fault{
	in("scope/class.go", "Moves",
		instead("a proxy's Pod moves it", "either(w.Old, w.New).Name == p.Name", "false"),
		instead("a Service that selects it moves it", "v.Selector.Selects(p.Labels)", "false"),
		instead("a Service of before moves it", "s.Old", "s.New"),
		instead("a Service as it is moves it", "s.New", "s.Old"),
		instead("a selector that matches it moves it", "l.Selects(p.Labels)", "false"),
	),
	in("scope/class.go", "changedSelectors",
		without("source labels of a VirtualService", "found = append(found, world.SourceSelectors(v)...)"),
		nth(1, instead("a VirtualService of before", "p.Old", "p.New")),
		nth(1, instead("a VirtualService as it is", "p.New", "p.Old")),
		instead("a DestinationRule of before", "selectorOf(p.Old)", "selectorOf(p.New)"),
		instead("a DestinationRule as it is", "selectorOf(p.New)", "selectorOf(p.Old)"),
		nth(1, without("a Gateway of before", "found = append(found, p.Old.Selector)")),
		nth(1, without("a Gateway as it is", "found = append(found, p.New.Selector)")),
		nth(2, without("a Sidecar of before", "found = append(found, p.Old.Selector)")),
		nth(2, without("a Sidecar as it is", "found = append(found, p.New.Selector)")),
		nth(3, without("a guard of before", "found = append(found, p.Old.Selector)")),
		nth(3, without("a guard as it is", "found = append(found, p.New.Selector)")),
	),
}
