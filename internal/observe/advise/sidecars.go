package advise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/census"
)

// A Sidecar is advised for a namespace whose proxies have at least this many clusters that they do
// not need, if these are at least half of all.
const minUnusedClusters = 50

// mostOwnServices is how large a namespace may be that a Sidecar lists as a whole ("./*"). Of a
// larger one it lists what is called, if that is less than half.
const mostOwnServices = 50

// scoping is what a Sidecar would make of one namespace.
type scoping struct {
	namespace census.Namespace
	proxies   int
	hosts     []string // of spec.egress
	whole     bool     // hosts are the own and the root namespace alone
	services  int      // that would be seen
	ports     int
	clusters  float64 // mean of its proxies now
	bytes     float64
}

// saves reports whether a Sidecar is worth it.
func (s *scoping) saves() bool {
	saved := s.namespace.SeenPorts - s.ports
	return saved >= minUnusedClusters && 2*s.ports <= s.namespace.SeenPorts
}

// sidecars advises Sidecars for namespaces whose proxies have much that they do not call.
func (d *diagnosis) sidecars() []Finding {
	all := d.scopings()
	var wide []scoping
	for _, s := range all {
		if s.saves() {
			wide = append(wide, s)
		}
	}
	if len(wide) == 0 {
		return nil
	}
	found := Finding{
		Summary: fmt.Sprintf("the proxies of %s see services that they do not call", someOf(namesOf(wide))),
		Effects: d.sidecarEffects(all, wide),
	}
	for i, e := range []string{"clusters of a proxy", "configuration of a proxy"} {
		unit := []string{"", "B"}[i]
		found.Evidence = append(found.Evidence, Evidence{Metric: e, Value: found.Effects[i].Before, Unit: unit,
			Threshold: 2 * found.Effects[i].After, Off: true})
	}
	found.Remedy = d.sidecarRemedy(all, wide)
	return []Finding{found}
}

// scopings returns what a Sidecar would make of each namespace that has sidecars and no Sidecar of
// its own. One in the root namespace would be the mesh's.
func (d *diagnosis) scopings() (all []scoping) {
	proxies := map[string][]Proxy{}
	for _, p := range d.Proxies {
		if !p.Router {
			proxies[p.Namespace] = append(proxies[p.Namespace], p)
		}
	}
	for _, n := range d.Census.Namespaces {
		count := len(proxies[n.Name])
		if len(d.Proxies) == 0 {
			count = n.Workloads
		}
		if count == 0 || n.Sidecar != "" || n.Name == d.Census.RootNamespace {
			continue
		}
		s := d.scopingOf(n)
		s.proxies, s.clusters = count, float64(n.SeenPorts)
		if of := proxies[n.Name]; len(of) > 0 {
			s.clusters = 0
			for _, p := range of {
				s.clusters += float64(p.Clusters) / float64(len(of))
				s.bytes += float64(p.ConfigBytes) / float64(len(of))
			}
		}
		all = append(all, s)
	}
	return all
}

// scopingOf derives a namespace's Sidecar from what it calls.
func (d *diagnosis) scopingOf(n census.Namespace) scoping {
	called := d.calledBy(n.Name)
	ownCalled, own := 0, 0
	for i := range d.Census.Services {
		if svc := &d.Census.Services[i]; svc.Namespace == n.Name {
			own++
			if called[model.ScopedHost{Namespace: n.Name, Host: svc.Host}] {
				ownCalled++
			}
		}
	}
	wholeOwn := d.Calls.Source == "" || own <= mostOwnServices || 2*ownCalled > own
	s := scoping{namespace: n, whole: true}
	hosts := map[string]bool{d.Census.RootNamespace + "/*": true}
	if wholeOwn {
		hosts["./*"] = true
	}
	for h := range called {
		namespace := h.Namespace
		if namespace == n.Name {
			if wholeOwn {
				continue
			}
			namespace = "."
		}
		if namespace != d.Census.RootNamespace {
			hosts[namespace+"/"+string(h.Host)] = true
			s.whole = false
		}
	}
	s.whole = s.whole && wholeOwn
	s.hosts = slices.Sorted(maps.Keys(hosts))
	for i := range d.Census.Services {
		svc := &d.Census.Services[i]
		inOwn := svc.Namespace == n.Name && wholeOwn || svc.Namespace == d.Census.RootNamespace
		listed := called[model.ScopedHost{Namespace: svc.Namespace, Host: svc.Host}]
		if (inOwn || listed) && svc.ExportTo.Visible(svc.Namespace, n.Name) {
			s.services++
			s.ports += svc.Ports
		}
	}
	return s
}

// calledBy returns the services that a namespace calls, by the namespaces of their objects, and the
// hosts whose routes lead to them.
func (d *diagnosis) calledBy(namespace string) map[model.ScopedHost]bool {
	all := map[model.ScopedHost]bool{}
	for host := range d.Calls.ByNamespace[namespace] {
		for _, svc := range d.servicesFor(host) {
			if !svc.ExportTo.Visible(svc.Namespace, namespace) {
				continue
			}
			all[model.ScopedHost{Namespace: svc.Namespace, Host: svc.Host}] = true
			for _, from := range svc.RoutedFrom {
				all[from] = true
				for _, other := range d.servicesFor(from.Host) {
					all[model.ScopedHost{Namespace: other.Namespace, Host: other.Host}] = true
				}
			}
		}
	}
	return all
}

// servicesFor returns the services of a host; those of a wildcard that covers it if it has none.
func (d *diagnosis) servicesFor(host model.Host) (found []*census.Service) {
	services := d.Census.Services // sorted by host
	at, ok := slices.BinarySearchFunc(services, host, func(s census.Service, h model.Host) int {
		return cmp.Compare(s.Host, h)
	})
	for ; ok && at < len(services) && services[at].Host == host; at++ {
		found = append(found, &services[at])
	}
	if len(found) > 0 {
		return found
	}
	for i := range services {
		if services[i].Host.IsWildcard() && services[i].Host.Covers(host) {
			found = append(found, &services[i])
		}
	}
	return found
}

// sidecarEffects are what the Sidecars change: means over the proxies that get one, and of a change
// over all services.
func (d *diagnosis) sidecarEffects(all, wide []scoping) []Effect {
	var n, before, after, bytesBefore, bytesAfter float64
	for _, s := range wide {
		proxies := float64(s.proxies)
		left := float64(s.ports) / float64(s.namespace.SeenPorts)
		n += proxies
		before += proxies * s.clusters
		after += proxies * (s.clusters - float64(s.namespace.SeenPorts-s.ports))
		bytesBefore += proxies * s.bytes
		bytesAfter += proxies * s.bytes * left
	}
	if bytesBefore == 0 { // no proxy is connected: by the model
		bytesBefore, bytesAfter = before*d.model.ConnectService.Sent, after*d.model.ConnectService.Sent
	}
	reached, reachedAfter := d.reached(all, nil), d.reached(all, wide)
	return []Effect{
		{What: "clusters of a proxy", Before: before / n, After: after / n},
		{What: "configuration of a proxy", Unit: "B", Before: bytesBefore / n, After: bytesAfter / n},
		{What: "proxies that a change of a service reaches", Before: reached, After: reachedAfter},
		d.changeCPU(reached, reachedAfter),
	}
}

// changeCPU is the model's CPU for one change of endpoints a second.
func (d *diagnosis) changeCPU(before, after float64) Effect {
	one := d.model.Change["endpoints"].CPUSeconds
	return Effect{What: "CPU of one change of endpoints a second", Unit: "cores", Before: before * one,
		After: after * one}
}

// reached returns how many sidecars a change of a service reaches, in the mean over all services,
// after some namespaces got their Sidecar.
func (d *diagnosis) reached(all, scoped []scoping) (sum float64) {
	for _, s := range all {
		seen := s.namespace.SeenServices
		if slices.ContainsFunc(scoped, func(x scoping) bool { return x.namespace.Name == s.namespace.Name }) {
			seen = s.services
		}
		sum += float64(s.proxies) * float64(seen)
	}
	return share(sum, float64(len(d.Census.Services)))
}

// sidecarRemedy writes the Sidecars: one for the mesh if all namespaces would get the same.
func (d *diagnosis) sidecarRemedy(all, wide []scoping) Remedy {
	one := len(wide) == len(all) && len(wide) > 1 &&
		!slices.ContainsFunc(wide, func(s scoping) bool { return !s.whole }) && !d.hasMeshSidecar()
	var docs []string
	if one {
		docs = []string{sidecarManifest(d.Census.RootNamespace, wide[0].hosts)}
	} else {
		for _, s := range wide {
			docs = append(docs, sidecarManifest(s.namespace.Name, s.hosts))
		}
	}
	r := Remedy{Manifests: strings.Join(docs, "---\n"), Automatic: true,
		Text: "calls of hosts that are not listed go on as to a host outside of the mesh, without mutual TLS, routes " +
			"and policies of it"}
	if d.Census.RegistryOnly {
		r.Text = "calls of hosts that are not listed will fail (outboundTrafficPolicy is REGISTRY_ONLY)"
	}
	if d.Calls.Source == "" {
		r.ByHand = "who calls whom is not known, so add what these namespaces call of others"
	} else {
		r.Text += "; listed is what was called, known from " + d.Calls.Source
	}
	return r
}

// hasMeshSidecar reports whether the mesh has a Sidecar for all.
func (d *diagnosis) hasMeshSidecar() bool {
	return slices.ContainsFunc(d.Census.Namespaces, func(n census.Namespace) bool {
		return n.Name == d.Census.RootNamespace && n.Sidecar != ""
	})
}

func sidecarManifest(namespace string, hosts []string) string {
	text, _ := yaml.Marshal(map[string]any{ // strings alone
		"apiVersion": "networking.istio.io/v1", "kind": "Sidecar",
		"metadata": map[string]string{"name": "default", "namespace": namespace},
		"spec":     map[string]any{"egress": []any{map[string]any{"hosts": hosts}}},
	})
	return string(text)
}

func namesOf(all []scoping) (names []string) {
	for _, s := range all {
		names = append(names, s.namespace.Name)
	}
	return names
}

// someOf lists names, four at most.
func someOf(names []string) string {
	const most = 4
	if len(names) > most {
		return fmt.Sprintf("%s and %d more namespaces", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
