package state

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// naiveSnapshot answers what a Snapshot answers, by looking at all objects each time.
type naiveSnapshot struct{ objects []model.Object }

func naiveSnapshotOf(present []meshlife.Update) naiveSnapshot {
	var d naiveSnapshot
	for _, u := range present {
		d.objects = append(d.objects, u.Objects...)
	}
	entries := of(d, func(s *model.Service) bool { return s.Kind == kinds.ServiceEntry })
	d.objects = slices.DeleteFunc(d.objects, func(o model.Object) bool { return entryOf(o) != nil })
	said := map[entryHost][]*model.Service{}
	for _, s := range entries {
		at := entryHost{s.Namespace, s.Host}
		said[at] = append(said[at], s)
	}
	for _, list := range said {
		for _, s := range mergeEntries(list) {
			d.objects = append(d.objects, s)
		}
	}
	return d.withDelegations()
}

// of are all objects of a type that fit, in the total order of conflicts.
func of[T any](d naiveSnapshot, fits func(*T) bool) []*T {
	var found []*T
	for _, o := range d.objects {
		if t, ok := any(o).(*T); ok && fits(t) {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b *T) int {
		return model.MetaOf(any(a).(model.Object)).Compare(model.MetaOf(any(b).(model.Object)))
	})
	return found
}

func all[T any](*T) bool { return true }

func (d naiveSnapshot) mesh() model.MeshConfig {
	for _, m := range of(d, all[model.MeshConfig]) {
		return *m
	}
	return model.DefaultMesh()
}

// names are what answers are compared by: which objects, in which order.
func names[T any](list []*T) []string {
	out := []string{}
	for _, o := range list {
		name := model.MetaOf(any(o).(model.Object)).Key().String()
		if svc, ok := any(o).(*model.Service); ok {
			name += " " + string(svc.Host)
		}
		out = append(out, fmt.Sprintf("%s %x", name, model.Fingerprint(o)))
	}
	return out
}

// endpoints are those of a service as people would say it, from each slice, or of a ServiceEntry
// from its list and each pod that it selects; what several say of one endpoint, the first by name
// says.
func (d naiveSnapshot) endpoints(service serviceID) map[EndpointID]model.Endpoint {
	type claim struct {
		by       string
		endpoint model.Endpoint
	}
	claims := map[EndpointID][]claim{}
	add := func(by string, e model.Endpoint) {
		id := EndpointID(net.JoinHostPort(e.Address, fmt.Sprint(e.Port)) + "/" + e.PortName)
		claims[id] = append(claims[id], claim{by, e})
	}
	pods := of(d, func(w *model.Workload) bool { return w.Namespace == service.namespace })
	for _, s := range of(d, func(s *model.EndpointSlice) bool { return naiveServiceOf(d, s) == service }) {
		for _, h := range s.Hosts {
			e, known := d.sliceEndpoint(h, pods)
			for _, p := range s.Ports {
				if e.Port, e.PortName = p.Port, p.Name; known {
					add("slice/"+s.Name, e)
				}
			}
		}
	}
	for _, svc := range of(d, func(svc *model.Service) bool { return naiveID(svc) == service }) {
		for _, e := range svc.Endpoints {
			add("entry", e)
		}
		for _, e := range d.entriesOf(svc) {
			for _, p := range svc.Ports {
				if port := naivePort(p, e); port != 0 && !e.Withheld {
					add("workloadentry/"+e.Name, model.Endpoint{
						Address:  e.Address,
						Port:     port,
						PortName: p.Name,
						Health:   e.Health,
						Weight:   e.Weight,
						Labels:   e.Labels,
						Locality: e.Locality, Workload: e.Namespace + "/" + e.Name,
					})
				}
			}
		}
		if svc.Kind != kinds.ServiceEntry || svc.Selector.IsEmpty() {
			continue
		}
		for _, w := range pods {
			if svc.Selector.Selects(w.Labels) {
				for _, p := range svc.Ports {
					add("pod/"+w.Name, d.selectedEndpoint(p, w))
				}
			}
		}
	}
	out := map[EndpointID]model.Endpoint{}
	for id, list := range claims {
		e := slices.MinFunc(list, func(a, b claim) int { return cmp.Compare(a.by, b.by) }).endpoint
		e.TLS = d.calledInTLS(service.namespace, e)
		out[id] = e
	}
	return out
}

// calledInTLS reports whether a workload says that it takes TLS, and no policy is against that.
func (d naiveSnapshot) calledInTLS(namespace string, e model.Endpoint) bool {
	modes := []model.MTLSMode{model.MTLSUnset, model.MTLSUnset, model.MTLSUnset, model.MTLSUnset}
	first := func(in string, selects bool, set func(*model.PeerAuthentication)) {
		for _, p := range of(d, func(p *model.PeerAuthentication) bool { return p.Namespace == in }) {
			if selects != p.Selector.IsEmpty() && p.Selector.Selects(e.Labels) {
				set(p)
				return
			}
		}
	}
	first(namespace, true, func(p *model.PeerAuthentication) {
		modes[1] = p.Mode
		for _, port := range p.Ports {
			if port.Port == e.Port {
				modes[0] = port.Mode
			}
		}
	})
	first(namespace, false, func(p *model.PeerAuthentication) { modes[2] = p.Mode })
	first(d.mesh().RootNamespace, false, func(p *model.PeerAuthentication) { modes[3] = p.Mode })
	return e.Labels.Map()["security.istio.io/tlsMode"] == "istio" && cmp.Or(modes...) != model.MTLSDisable
}

// accounts are those of the endpoints of a service, and of the pods that are beside them in its
// slices; sorted.
func (d naiveSnapshot) accounts(id serviceID) []string {
	found := map[string]bool{}
	pods := of(d, func(w *model.Workload) bool { return w.Namespace == id.namespace })
	ofPod := func(name string) {
		for _, w := range pods {
			found[w.ServiceAccount] = found[w.ServiceAccount] || w.Name == name
		}
	}
	for _, s := range of(d, func(s *model.EndpointSlice) bool { return naiveServiceOf(d, s) == id }) {
		for _, h := range s.Hosts {
			ofPod(h.Pod)
		}
		for _, name := range s.Unready {
			ofPod(name)
		}
	}
	for _, svc := range of(d, func(svc *model.Service) bool { return naiveID(svc) == id }) {
		for _, e := range svc.Endpoints {
			found[e.Account] = e.Account != ""
		}
		for _, e := range d.entriesOf(svc) {
			found[e.Account] = found[e.Account] || e.Account != ""
		}
		for _, w := range pods {
			if svc.Kind == kinds.ServiceEntry && !svc.Selector.IsEmpty() && svc.Selector.Selects(w.Labels) {
				ofPod(w.Name)
			}
		}
	}
	maps.DeleteFunc(found, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(found))
}

// entriesOf are the WorkloadEntries that serve a service.
func (d naiveSnapshot) entriesOf(s *model.Service) []*model.WorkloadEntry {
	looksUp := s.Kind == kinds.ServiceEntry &&
		(s.Resolution == model.StrictDNS || s.Resolution == model.LogicalDNS)
	if s.Selector.IsEmpty() || s.Resolution != model.EDS && !looksUp {
		return nil
	}
	return of(d, func(e *model.WorkloadEntry) bool {
		return e.Namespace == s.Namespace && s.Selector.Selects(e.Labels) &&
			(looksUp || net.ParseIP(e.Address) != nil)
	})
}

func naivePort(p model.ServicePort, e *model.WorkloadEntry) uint16 {
	if p.TargetName != "" {
		return e.Ports.Number(p.TargetName)
	}
	return cmp.Or(e.Ports.Number(p.Name), p.Target)
}

func naiveID(svc *model.Service) serviceID {
	if svc.Kind == kinds.ServiceEntry {
		return serviceID{host: svc.Host, namespace: svc.Namespace, entry: svc.Name}
	}
	return serviceID{host: svc.Host, namespace: svc.Namespace}
}

func naiveServiceOf(d naiveSnapshot, s *model.EndpointSlice) serviceID {
	return serviceID{
		host:      model.Host(s.Service + "." + s.Namespace + ".svc." + d.mesh().Domain),
		namespace: s.Namespace,
	}
}

// withEndpoints are all services that may have some, be there such a Service or not.
func (d naiveSnapshot) withEndpoints() map[serviceID]bool {
	ids := map[serviceID]bool{}
	for _, svc := range of(d, all[model.Service]) {
		ids[naiveID(svc)] = true
	}
	for _, s := range of(d, all[model.EndpointSlice]) {
		ids[naiveServiceOf(d, s)] = true
	}
	return ids
}

func (d naiveSnapshot) sliceEndpoint(h model.SliceHost, pods []*model.Workload) (e model.Endpoint, known bool) {
	e = model.Endpoint{Address: h.Address, Health: h.Health, Node: h.Node, Hints: h.Hints, Hostname: h.Hostname}
	if h.Pod == "" {
		e.Locality = cmp.Or(d.standing(e.Node), model.Locality{Zone: h.Zone})
		return e, true
	}
	for _, w := range pods {
		if w.Name == h.Pod {
			e.Labels, e.Workload, e.Node = w.Labels, w.Namespace+"/"+w.Name, cmp.Or(h.Node, w.Node)
			e.Locality = cmp.Or(w.Locality, d.standing(e.Node), model.Locality{Zone: h.Zone})
			if i := slices.Index(w.Addresses, h.Address); i >= 0 && len(w.Addresses) == 2 {
				if other := w.Addresses[1-i]; strings.Contains(other, ":") != strings.Contains(h.Address, ":") {
					e.Other = other
				}
			}
			if w.Labels.Map()["istio.io/draining"] != "" {
				e.Health = model.Draining
			}
			return e, true
		}
	}
	return e, false
}

func (d naiveSnapshot) localityOf(w *model.Workload) model.Locality {
	return cmp.Or(w.Locality, d.standing(w.Node))
}

// standing is where a node stands.
func (d naiveSnapshot) standing(node string) model.Locality {
	for _, n := range of(d, func(n *model.Node) bool { return n.Name == node }) {
		return n.Locality
	}
	return model.Locality{}
}

func (d naiveSnapshot) selectedEndpoint(p model.ServicePort, w *model.Workload) model.Endpoint {
	return model.Endpoint{
		Address: w.Addresses[0], Port: cmp.Or(
			p.Target, w.Ports.Number(p.TargetName), p.Port,
		), PortName: p.Name, Labels: w.Labels,
		Locality: d.localityOf(w), Workload: w.Namespace + "/" + w.Name, Node: w.Node,
	}
}

// hostsNamed are all hosts that objects name anywhere, and one that none does.
func (d naiveSnapshot) hostsNamed() []model.Host {
	hosts := map[model.Host]bool{"nobody.example.com": true}
	for _, svc := range of(d, all[model.Service]) {
		hosts[svc.Host] = true
	}
	for _, s := range of(d, all[model.EndpointSlice]) {
		hosts[model.Resolve(s.Service, s.Namespace, d.mesh().Domain)] = true
	}
	for _, v := range of(d, all[model.VirtualService]) {
		for _, h := range append(slices.Clone(v.Hosts), naiveDestinations(v)...) {
			hosts[h] = true
		}
	}
	for _, r := range of(d, all[model.DestinationRule]) {
		hosts[r.Host] = true
	}
	return slices.Sorted(maps.Keys(hosts))
}

func naiveDestinations(v *model.VirtualService) []model.Host {
	hosts := map[model.Host]bool{}
	add := func(list []model.Destination) {
		for _, d := range list {
			hosts[d.Host] = true
		}
	}
	for _, r := range v.HTTP {
		add(r.Destinations)
		for _, m := range r.Mirrors {
			add([]model.Destination{m.Destination})
		}
	}
	for _, r := range v.TLS {
		add(r.Destinations)
	}
	for _, r := range v.TCP {
		add(r.Destinations)
	}
	return slices.Sorted(maps.Keys(hosts))
}

// selectors are all selectors over workloads, each once.
func (d naiveSnapshot) selectors() []model.Labels {
	found := map[model.Labels]bool{}
	add := func(l model.Labels) {
		if !l.IsEmpty() {
			found[l] = true
		}
	}
	for _, v := range of(d, all[model.VirtualService]) {
		for _, r := range v.HTTP {
			for _, m := range r.Matches {
				add(m.SourceLabels)
			}
		}
		for _, r := range v.TLS {
			for _, m := range r.Matches {
				add(m.SourceLabels)
			}
		}
		for _, r := range v.TCP {
			for _, m := range r.Matches {
				add(m.SourceLabels)
			}
		}
	}
	for _, r := range of(d, all[model.DestinationRule]) {
		add(r.Selector)
	}
	for _, g := range of(d, all[model.Gateway]) {
		add(g.Selector)
	}
	for _, s := range of(d, all[model.Sidecar]) {
		add(s.Selector)
	}
	for _, p := range of(d, all[model.AuthorizationPolicy]) {
		for _, l := range p.Selectors() {
			add(l)
		}
	}
	for _, p := range of(d, all[model.PeerAuthentication]) {
		add(p.Selector)
	}
	for _, a := range of(d, all[model.RequestAuthentication]) {
		for _, l := range a.Selectors() {
			add(l)
		}
	}
	for _, t := range of(d, all[model.Telemetry]) {
		for _, l := range t.Selectors() {
			add(l)
		}
	}
	for _, f := range of(d, all[model.EnvoyFilter]) {
		for _, l := range f.Selectors() {
			add(l)
		}
	}
	return slices.Collect(maps.Keys(found))
}

// counts are the sizes of the mesh.
func (d naiveSnapshot) counts() Counts {
	c := Counts{
		VirtualServices: len(of(d, all[model.VirtualService])),
		Limits:          len(of(d, (*model.DestinationRule).HasPool)),
	}
	hosts := map[model.Host]bool{}
	services := of(d, all[model.Service])
	for _, svc := range services {
		hosts[svc.Host] = true
	}
	c.Services, c.WithoutEndpoints = len(hosts), len(services)
	for id := range d.withEndpoints() {
		if len(d.endpoints(id)) > 0 {
			c.WithoutEndpoints--
		}
	}
	c.WithoutEndpoints = max(0, c.WithoutEndpoints)
	for _, r := range of(d, all[model.DestinationRule]) {
		c.Subsets += len(r.Subsets)
	}
	for _, s := range of(d, all[model.EndpointSlice]) {
		pods := of(d, func(w *model.Workload) bool { return w.Namespace == s.Namespace })
		c.UnreadyEndpoints += len(s.Unready)
		for _, h := range s.Hosts {
			if h.Health == model.Unhealthy {
				c.UnreadyEndpoints++
			}
			if _, known := d.sliceEndpoint(h, pods); !known {
				c.PendingEndpoints++
			}
		}
	}
	return c
}

// under reports whether a host is one that a pattern covers.
func under(pattern, host model.Host) bool {
	return pattern == host || pattern.IsWildcard() && strings.HasSuffix(string(host), string(pattern[1:]))
}
