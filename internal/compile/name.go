package compile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/name"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// podHost returns the name of a pod of a headless service.
func podHost(hostname string, service model.Host) model.Host {
	return model.Host(hostname + "." + string(service))
}

// nameSlots returns the name of a host, if it stands for any address.
func (b unitBuilder) nameSlots(s *scope.Scope, host model.Host, report func(source.Problem)) []slot {
	if !s.NamesHosts() {
		return nil
	}
	in := name.Input{Host: host}
	var addresses []string
	if svc := s.Service(host); svc != nil {
		addresses = addressesOf(s, svc)
		if svc.Kind == kinds.Service {
			in.ShortName, in.Namespace = svc.Name, svc.Namespace
		}
		b.reportFullRange(s, svc, report)
	} else if hostname, svc := podsService(s, host); svc != nil {
		addresses = b.pods.of(s.Endpoints(svc))[hostname]
		in.ShortName, in.Namespace = hostname+"."+svc.Name, svc.Namespace
	}
	if len(addresses) == 0 {
		return nil
	}
	in.Addresses = b.addresses.List(addresses)
	return []slot{{typ: resource.Name, name: string(host), get: func() emitted {
		return unpatched(b.nameTables.get(in))
	}}}
}

// podsService returns the headless service that a host is a pod's name of, and the first part of
// that name.
func podsService(s *scope.Scope, host model.Host) (hostname string, svc *model.Service) {
	hostname, parent, _ := strings.Cut(string(host), ".")
	if svc := s.Service(model.Host(parent)); svc != nil && svc.Headless {
		return hostname, svc
	}
	return "", nil
}

// addressesOf returns what the name of a service stands for: its virtual IPs, or the endpoints that
// are called by their own addresses.
func addressesOf(s *scope.Scope, svc *model.Service) []string {
	addresses := slices.DeleteFunc(s.VIPs(svc), func(a string) bool { return slices.Contains(svc.ExternalIPs, a) })
	if len(addresses) > 0 || !isNamedByEndpoints(svc) {
		return addresses
	}
	for _, e := range s.Endpoints(svc).All() {
		if isNamed(&e) {
			addresses = append(addresses, e.Address)
		}
	}
	return model.SortedDistinct(addresses)
}

// isNamedByEndpoints reports whether the name of a service without virtual IPs stands for its
// endpoints.
func isNamedByEndpoints(svc *model.Service) bool {
	return svc.Headless || svc.Resolution == model.Passthrough
}

// isNamed reports whether a name may stand for an endpoint: it gets requests, and has an address.
func isNamed(e *model.Endpoint) bool {
	_, err := netip.ParseAddr(e.Address)
	return err == nil && e.Health == model.Healthy
}

// reportFullRange reports a host that should have an address of the mesh's range and has none.
func (b unitBuilder) reportFullRange(s *scope.Scope, svc *model.Service, report func(source.Problem)) {
	if !svc.AutoAddress || !s.Intercepts() || s.HasVIP(svc) {
		return
	}
	report(problemOf(&svc.Meta, source.Problem{
		Severity: source.Warning, Path: "spec.addresses", Value: string(svc.Host),
		Message: "the mesh's range of addresses has no place left for this host; workloads look its name up " +
			"outside of the mesh, and reach it by its port alone",
		Want: "an address of its own",
	}))
}

// podNames remembers the addresses of pods by their host names, in the sets of endpoints that were
// asked for last. A step asks for many pods of one set.
type podNames struct {
	known map[*state.EndpointSet]map[string][]string
}

// maxPodSets is how many sets are remembered.
const maxPodSets = 8

func (p *podNames) of(set *state.EndpointSet) map[string][]string {
	if found, ok := p.known[set]; ok {
		return found
	}
	if len(p.known) >= maxPodSets {
		clear(p.known)
	}
	found := map[string][]string{}
	for _, e := range set.All() {
		if e.Hostname != "" && isNamed(&e) {
			found[e.Hostname] = append(found[e.Hostname], e.Address)
		}
	}
	for hostname, addresses := range found {
		found[hostname] = model.SortedDistinct(addresses)
	}
	p.known[set] = found
	return found
}

// namesHosts reports whether any class has names.
func (c *compiled) namesHosts() bool {
	return slices.ContainsFunc(c.list, func(cl *class) bool { return cl.key.Settings.DNSCapture }) ||
		c.building != nil && c.building.key.Settings.DNSCapture
}

// isNamedByEndpoints reports whether a host may belong to a service whose name stands for its
// endpoints.
func (m *impact) isNamedByEndpoints(host model.Host) bool {
	return m.anyClaimant(host, isNamedByEndpoints)
}

// addChangedPods adds the name of a service, and those of its pods that changed.
func (m *impact) addChangedPods(e state.EndpointChange) {
	m.names = m.names.with(e.Host, m.because(endpointsOf(e)))
	for _, id := range e.IDs {
		for _, set := range []*state.EndpointSet{e.From, e.To} {
			if found, is := set.Get(id); is && found.Hostname != "" {
				m.names = m.names.with(podHost(found.Hostname, e.Host), m.by)
			}
		}
	}
}
