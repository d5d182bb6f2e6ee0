package up

import (
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// target is a request that a gateway should answer according to its routes.
type target struct{ url, host, path string }

// checkTargets returns the paths of routes for hosts that are served at a gateway's port.
func checkTargets(balancers []local.LoadBalancer, w *state.Snapshot) []target {
	var targets []target
	for _, lb := range balancers {
		if !lb.Address.IsValid() || !lb.HTTP {
			continue
		}
		at := portOf(w, lb)
		for vs := range w.VirtualServices() {
			for _, name := range vs.Gateways {
				host, ok := hostAt(w.Gateway(name), at, vs)
				if !ok {
					continue
				}
				for _, path := range pathsOf(vs, name, at.Port) {
					targets = append(targets, target{url: lb.URL(), host: callable(host), path: path})
				}
				break
			}
		}
	}
	return targets
}

// portOf returns the Service port of a load balancer, or a zero one.
func portOf(w *state.Snapshot, lb local.LoadBalancer) model.ServicePort {
	for svc := range w.Claims(model.Resolve(lb.Service, lb.Namespace, w.Mesh.Domain)) {
		for _, p := range svc.Ports {
			if p.Name == lb.Port {
				return p
			}
		}
	}
	return model.ServicePort{}
}

// hostAt returns a host that a VirtualService and a Gateway's servers have in common, or false. A
// server names the port of the gateway's Service, or the port that its workload binds.
func hostAt(g *model.Gateway, at model.ServicePort, vs *model.VirtualService) (model.Host, bool) {
	if g == nil {
		return "", false
	}
	for _, sv := range g.Servers {
		if sv.Broken != "" || sv.Port != at.Port && sv.Port != at.Target {
			continue
		}
		for _, own := range sv.Hosts {
			for _, h := range vs.Hosts {
				switch {
				case own.Covers(vs.Namespace, h):
					return h, true
				case own.Covers(vs.Namespace, own.Host) && h.Covers(own.Host):
					return own.Host, true
				}
			}
		}
	}
	return "", false
}

// pathsOf returns the paths for which a plain GET through a gateway must find a route.
func pathsOf(vs *model.VirtualService, gateway string, port uint16) []string {
	var paths []string
	for _, r := range vs.HTTP {
		if len(r.Matches) == 0 {
			paths = append(paths, "/")
		}
		for _, m := range r.Matches {
			switch {
			case len(m.Gateways) > 0 && !slices.Contains(m.Gateways,
				gateway), m.Port != 0 && m.Port != port, !isPlain(m):
			case m.URI == nil:
				paths = append(paths, "/")
			case m.URI.Kind != model.Regex:
				paths = append(paths, m.URI.Value)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// isPlain reports whether a match has no conditions but a path.
func isPlain(m *model.HTTPMatch) bool {
	return m.Method == nil && m.Scheme == nil && m.Authority == nil &&
		len(m.Headers)+len(m.WithoutHeaders)+len(m.Query) == 0 &&
		m.SourceLabels.IsEmpty() &&
		m.SourceNamespace == ""
}

// callable returns a host name that a host of a VirtualService matches. Empty means the address
// itself.
func callable(h model.Host) string {
	if h == "*" {
		return ""
	}
	if suffix, ok := strings.CutPrefix(string(h), "*"); ok {
		return "check" + suffix
	}
	return string(h)
}
