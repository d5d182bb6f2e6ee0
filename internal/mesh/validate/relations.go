package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// routes is the aspect of what a VirtualService names.
const routes = "routes"

// checkRelations checks the VirtualServices that the delta may concern: destinations that no
// service or subset answers to, and gateways that do not exist.
func (c *Checker) checkRelations(snap *state.Snapshot, d *state.Delta) {
	dirty := map[*model.VirtualService]bool{}
	for _, p := range d.VirtualServices {
		if isAttached(p.Either()) {
			continue
		}
		if p.New == nil {
			c.store.setRelation(routesOf(p.Old), nil)
			c.setUnresolved(p.Old, false)
			continue
		}
		dirty[p.New] = true
	}
	for _, p := range d.Delegations { // where the routes are written
		if p.New != nil && !p.New.Unused {
			dirty[snap.VirtualService(p.New.Namespace, p.New.Name)] = true
		}
	}
	for _, h := range hostsNamed(d) {
		for host := range snap.HostsUnder(h) {
			addRoutesTo(snap, host, 0, dirty)
		}
		addRoutesTo(snap, h, 0, dirty)
		for v := range snap.VirtualServicesOf(h) { // its ports are those that are called
			dirty[v] = true
		}
	}
	for _, p := range d.Gateways {
		for _, g := range []*model.Gateway{p.Old, p.New} {
			if g == nil {
				continue
			}
			for v := range snap.VirtualServicesAt(g.Namespace + "/" + g.Name) {
				dirty[v] = true
			}
		}
	}
	c.addUnresolved(snap, d, dirty)
	for v := range dirty {
		if isAttached(v) {
			continue
		}
		c.setRoutes(snap, v)
		c.setUnresolved(v, slices.ContainsFunc(
			state.DestinationHosts(v), func(h model.Host) bool { return winner(snap.Claims(h)) == nil },
		))
	}
}

// addRoutesTo adds the VirtualServices that lead to a host, or to another name of it.
func addRoutesTo(snap *state.Snapshot, host model.Host, names int, dirty map[*model.VirtualService]bool) {
	for v := range snap.VirtualServicesTo(host) {
		dirty[v] = true
	}
	if names == model.MaxAliases || !snap.HasAliases() {
		return
	}
	for alias := range snap.AliasesOf(host) {
		addRoutesTo(snap, alias.Host, names+1, dirty)
	}
}

// behind returns the service that one is another name of, as callers of a namespace see it: the
// service itself unless it is of type ExternalName and its name is the host of another one.
func behind(snap *state.Snapshot, namespace string, svc *model.Service) *model.Service {
	named := svc
	for range model.MaxAliases {
		if !named.IsAlias() || named.AliasOf == "" {
			return named
		}
		if named = calledFrom(namespace, snap.Claims(named.AliasOf)); named == nil {
			return svc
		}
	}
	return svc
}

// addUnresolved adds the VirtualServices with a missing destination, in namespaces where a service
// came or went: the hosts that their problem suggests may have changed.
func (c *Checker) addUnresolved(snap *state.Snapshot, d *state.Delta, dirty map[*model.VirtualService]bool) {
	for _, p := range d.Services {
		if p.Old != nil && p.New != nil {
			continue
		}
		s := p.Old
		if s == nil {
			s = p.New
		}
		for k := range c.unresolved[s.Namespace] {
			if v := snap.VirtualService(k.Namespace, k.Name); v != nil {
				dirty[v] = true
			}
		}
	}
}

// routesOf names the findings about a VirtualService's routes. Several VirtualServices of one
// Ingress have one each.
func routesOf(v *model.VirtualService) relation {
	if v.Owner != "" {
		return relation{v.Key(), routes + " " + v.Name}
	}
	return relation{v.Key(), routes}
}

// setUnresolved remembers whether a VirtualService has a destination that does not exist.
func (c *Checker) setUnresolved(v *model.VirtualService, lost bool) {
	k := source.Key{Kind: v.Kind, Namespace: v.Namespace, Name: v.Name}
	in := c.unresolved[k.Namespace]
	switch {
	case !lost:
		delete(in, k)
	case in == nil:
		c.unresolved[k.Namespace] = map[source.Key]bool{k: true}
	default:
		in[k] = true
	}
	if !lost && len(in) == 0 {
		delete(c.unresolved, k.Namespace)
	}
}

// hostsNamed are the hosts of changed services and DestinationRules.
func hostsNamed(d *state.Delta) []model.Host {
	var hosts []model.Host
	for _, p := range d.Services {
		for _, s := range []*model.Service{p.Old, p.New} {
			if s != nil {
				hosts = append(hosts, s.Host)
			}
		}
	}
	for _, p := range d.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r != nil {
				hosts = append(hosts, r.Host)
			}
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// checkVirtualService returns what is wrong with a VirtualService. Problems of a delegate's routes
// have its name as their object.
func checkVirtualService(snap *state.Snapshot, v *model.VirtualService) []source.Problem {
	var problems []source.Problem
	written := writtenAt(snap, v)
	add := func(p source.Problem) { problems = append(problems, p) }
	for i, g := range v.Gateways {
		if g != model.Mesh && snap.Gateway(g) == nil {
			add(source.Problem{
				Severity: source.Warning, Path: fmt.Sprintf("spec.gateways[%d]", i), Value: g,
				Message: "there is no such Gateway", Want: "the namespace/name of a Gateway, or \"mesh\"",
			})
		}
	}
	if v.Owner == "" {
		problems = append(problems, checkHostsAtGateways(snap, v)...)
	}
	problems = append(problems, checkRedirects(snap, v)...)
	for i, r := range v.HTTP {
		place := written(i)
		for j, d := range r.Destinations {
			at := place.below(fmt.Sprintf(".route[%d].destination", j))
			if v.Owner != "" {
				at.path = "spec.rules.http.paths.backend.service" // of an Ingress
			}
			problems = append(problems, at.told(checkDestination(snap, v, d, at))...)
		}
		problems = append(problems, place.told(checkSessions(snap, v, r, place.path))...)
		mirrors := place.ofMirrors()
		for j, m := range r.Mirrors {
			at := mirrors.below(fmt.Sprintf(".mirrors[%d].destination", j))
			problems = append(problems, at.told(checkDestination(snap, v, m.Destination, at))...)
		}
	}
	for i, r := range v.TLS {
		for j, d := range r.Destinations {
			problems = append(
				problems,
				checkDestination(snap, v, d, place{path: fmt.Sprintf("spec.tls[%d].route[%d].destination", i, j)})...)
		}
	}
	for i, r := range v.TCP {
		for j, d := range r.Destinations {
			problems = append(
				problems,
				checkDestination(snap, v, d, place{path: fmt.Sprintf("spec.tcp[%d].route[%d].destination", i, j)})...)
		}
	}
	return problems
}

func checkDestination(
	snap *state.Snapshot, v *model.VirtualService, d model.Destination, at place,
) []source.Problem {
	path := at.path
	if d.Host == "" {
		return nil // the conversion said so
	}
	s := calledFrom(v.Namespace, snap.Claims(d.Host))
	if s == nil {
		return []source.Problem{{
			Severity: source.Error, Path: path + ".host", Value: string(d.Host),
			Message: "no Service or ServiceEntry has this host; requests are answered with 503",
			Want:    at.otherHosts(snap, v, d.Host),
		}}
	}
	problems := checkLookedUp(v, s, path)
	if d.PortName != "" && !hasPortName(s, d.PortName) &&
		!hasPortName(behind(snap, v.Namespace, s), d.PortName) {
		problems = append(problems, source.Problem{
			Severity: source.Error, Path: path + ".port.name", Value: d.PortName,
			Message: fmt.Sprintf(
				"%s has no port of this name; requests are answered with 503", s.Key(),
			), Want: "the name of one of its ports",
		})
	}
	if d.Port != 0 {
		_, own := s.Port(d.Port)
		named := behind(snap, v.Namespace, s)
		if _, has := named.Port(d.Port); !has && !own {
			problems = append(problems, source.Problem{
				Severity: source.Error, Path: path + ".port.number", Value: fmt.Sprint(d.Port),
				Message: fmt.Sprintf(
					"%s has no such port; requests are answered with 503",
					named.Key(),
				), Want: wantPort(named),
			})
		}
	}
	if d.Port == 0 && d.PortName == "" {
		problems = append(problems, checkPortless(snap, v, s, path)...)
	}
	if d.Subset != "" {
		problems = append(problems, checkSubset(snap, d, path)...)
	}
	return problems
}

// checkLookedUp reports a wildcard without endpoints where gateways lead to it: nothing there looks
// names up, and no connection has an address that its caller picked for the wildcard.
func checkLookedUp(v *model.VirtualService, s *model.Service, path string) []source.Problem {
	isGateway := func(g string) bool { return g != model.Mesh }
	looksNoneUp := s.Resolution == model.Passthrough || s.Resolution == model.DynamicDNS
	if !looksNoneUp || !s.Host.IsWildcard() || !slices.ContainsFunc(v.Gateways, isGateway) {
		return nil
	}
	lacks := "has no resolution for this wildcard; gateways"
	if s.Resolution == model.DynamicDNS {
		lacks = "has resolution DYNAMIC_DNS, which is for sidecars; gateways"
	}
	return []source.Problem{{
		Severity: source.Warning, Path: path + ".host", Value: string(s.Host),
		Message: fmt.Sprintf(
			"%s %s answer requests with 503, and close connections", s.Key(), lacks,
		), Want: "for gateways, a host of its own for each name, with resolution DNS",
	}}
}

func checkSubset(snap *state.Snapshot, d model.Destination, path string) []source.Problem {
	var known []string
	for pattern := range d.Host.Patterns() {
		for r := range snap.DestinationRulesOf(pattern) {
			if _, ok := r.Subset(d.Subset); ok {
				return nil
			}
			for _, s := range r.Subsets {
				known = append(known, s.Name)
			}
		}
	}
	want := "a DestinationRule for the host that defines it"
	if len(known) > 0 {
		slices.Sort(known)
		want = "one of " + strings.Join(slices.Compact(known), ", ")
	}
	return []source.Problem{{
		Severity: source.Error, Path: path + ".subset", Value: d.Subset,
		Message: fmt.Sprintf(
			"no DestinationRule defines this subset of %s; requests are answered with 503", d.Host,
		), Want: want,
	}}
}

func hasPortName(s *model.Service, name string) bool {
	return slices.ContainsFunc(s.Ports, func(p model.ServicePort) bool { return p.Name == name })
}

// wantPort says which ports a service has. Of type ExternalName, for a name that is the host of no
// service here, it has to list its ports.
func wantPort(s *model.Service) string {
	if len(s.Ports) == 0 {
		return "the port in the ports of " + s.Key().String()
	}
	return "one of " + ports(s)
}

func ports(s *model.Service) string {
	var numbers []string
	for _, p := range s.Ports {
		numbers = append(numbers, fmt.Sprint(p.Port))
	}
	return strings.Join(numbers, ", ")
}

func wantHost(namespace string) string {
	return "the name of a Service in namespace " + namespace + ", or a fully qualified host"
}

// nearestHosts suggests hosts of the same namespace, or with the same first label elsewhere.
func nearestHosts(snap *state.Snapshot, v *model.VirtualService, h model.Host) string {
	first, _, _ := strings.Cut(string(h), ".")
	var near []string
	for s := range snap.ServicesIn(v.Namespace) {
		if name, _, _ := strings.Cut(string(s.Host), "."); strings.HasPrefix(name, first) ||
			strings.HasPrefix(first, name) {
			near = append(near, string(s.Host))
		}
	}
	if len(near) == 0 {
		return wantHost(v.Namespace)
	}
	return "perhaps " + strings.Join(near[:min(3, len(near))], " or ")
}
