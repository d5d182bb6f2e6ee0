package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// defaultPort is where requests for a host that no service has are routed.
const defaultPort = 80

// calledPort is a port at which calls reach a VirtualService.
type calledPort struct {
	port    uint16
	at      string // a host or "Gateway namespace/name"
	gateway bool
}

// calledPorts are the ports at which calls reach a VirtualService: those of the services that it
// routes and those of its Gateways.
func calledPorts(snap *state.Snapshot, v *model.VirtualService) []calledPort {
	var all []calledPort
	for _, name := range v.Gateways {
		if name == model.Mesh {
			all = append(all, calledPortsOfMesh(snap, v)...)
			continue
		}
		g := snap.Gateway(name)
		if g == nil {
			continue
		}
		for i := range g.Servers {
			e := calledPort{g.Servers[i].Port, "Gateway " + name, true}
			if g.Servers[i].Broken == "" && takesAny(&g.Servers[i], v) && !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all
}

func calledPortsOfMesh(snap *state.Snapshot, v *model.VirtualService) (all []calledPort) {
	for _, h := range v.Hosts {
		if h.IsWildcard() {
			continue // its hosts have ports of their own
		}
		s := calledFrom(v.Namespace, snap.Claims(h))
		if s == nil {
			all = append(all, calledPort{defaultPort, string(h), false})
			continue
		}
		for _, p := range s.Ports {
			all = append(all, calledPort{p.Port, string(h), false})
		}
	}
	return all
}

// takesAny reports whether a server takes some host of a VirtualService.
func takesAny(s *model.GatewayServer, v *model.VirtualService) bool {
	return slices.ContainsFunc(v.Hosts, func(h model.Host) bool { return takes(s, v.Namespace, h) })
}

func takes(s *model.GatewayServer, namespace string, h model.Host) bool {
	return slices.ContainsFunc(s.Hosts, func(at model.ScopedHost) bool {
		return at.Overlaps(namespace, h)
	})
}

// checkPortless reports a destination without a port whose service has several, where a call comes
// in at a port that the service lacks: the port that is called counts. A service of the mesh may
// have ports that the routes are not about, so of those only all count.
func checkPortless(snap *state.Snapshot, v *model.VirtualService, s *model.Service, path string) []source.Problem {
	if len(s.Ports) < 2 {
		return nil
	}
	var missing, atGateways []string
	called := calledPorts(snap, v)
	for _, c := range called {
		if _, has := s.Port(c.port); has {
			continue
		}
		text := fmt.Sprintf("%d of %s", c.port, c.at)
		missing = append(missing, text)
		if c.gateway {
			atGateways = append(atGateways, text)
		}
	}
	p := source.Problem{Severity: source.Error, Path: path + ".port", Want: "number: one of " + ports(s)}
	if len(missing) < len(called) {
		p.Severity, missing = source.Warning, atGateways
	}
	if len(missing) == 0 {
		return nil
	}
	p.Message = fmt.Sprintf("is not set, and %s has several ports: calls at port %s are answered with 503", s.Key(),
		atMost(3, missing))
	return []source.Problem{p}
}

// atMost lists the first of several names.
func atMost(n int, names []string) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// checkHostsAtGateways reports hosts that no Gateway of a VirtualService takes, and Gateways that
// take none of its hosts.
func checkHostsAtGateways(snap *state.Snapshot, v *model.VirtualService) []source.Problem {
	taken, idle := map[model.Host]bool{}, []int{}
	known := false
	for i, name := range v.Gateways {
		g := snap.Gateway(name)
		if g == nil {
			continue
		}
		known = true
		any := false
		for _, h := range v.Hosts {
			if slices.ContainsFunc(g.Servers, func(s model.GatewayServer) bool { return takes(&s, v.Namespace, h) }) {
				taken[h], any = true, true
			}
		}
		if !any {
			idle = append(idle, i)
		}
	}
	mesh := slices.Contains(v.Gateways, model.Mesh)
	var problems []source.Problem
	if len(taken) > 0 || mesh {
		for _, i := range idle {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Path: fmt.Sprintf("spec.gateways[%d]", i), Value: v.Gateways[i],
				Message: "takes none of the hosts, so nothing is routed there",
				Want:    hostsOf(snap.Gateway(v.Gateways[i])),
			})
		}
	}
	if !known || mesh {
		return problems
	}
	for i, h := range v.Hosts {
		if !taken[h] {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Path: fmt.Sprintf("spec.hosts[%d]", i), Value: string(h),
				Message: "no server of its Gateways takes this host, so nothing is routed",
				Want:    "a host of " + strings.Join(v.Gateways, ", "),
			})
		}
	}
	return problems
}

// hostsOf says which hosts the servers of a Gateway take.
func hostsOf(g *model.Gateway) string {
	var hosts []string
	for i := range g.Servers {
		for _, h := range g.Servers[i].Hosts {
			if text := h.Namespace + "/" + string(h.Host); !slices.Contains(hosts, text) {
				hosts = append(hosts, text)
			}
		}
	}
	return "one of " + atMost(3, hosts)
}
