package state

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

func selectsPods(svc *model.Service) bool { return !svc.Selector.IsEmpty() }

func selectingKey(svc *model.Service) []byte {
	return ordered(join(svc.Namespace, svc.Selector.FirstPair()), &svc.Meta, svc.Host)
}

func portKeys(keys [][]byte, svc *model.Service) [][]byte {
	for _, p := range svc.Ports {
		keys = append(keys, ordered(portPrefix(p.Port, p.Protocol), &svc.Meta, svc.Host))
	}
	return keys
}

// endpointKeys has each address that a ServiceEntry lists once.
func endpointKeys(keys [][]byte, svc *model.Service) [][]byte {
	if svc.Kind != kinds.ServiceEntry {
		return keys
	}
	seen := map[string]bool{}
	for i := range svc.Endpoints {
		if a := svc.Endpoints[i].Address; !seen[a] {
			seen[a] = true
			keys = append(keys, ordered(join(svc.Namespace, a), &svc.Meta, svc.Host))
		}
	}
	return keys
}

func slicePodKeys(keys [][]byte, s *model.EndpointSlice) [][]byte {
	for _, pod := range s.Unready {
		keys = append(keys, join(s.Namespace, pod, s.Name))
	}
	for i := range s.Hosts {
		if pod := s.Hosts[i].Pod; pod != "" {
			keys = append(keys, join(s.Namespace, pod, s.Name))
		}
	}
	return keys
}

func sliceNodeKeys(keys [][]byte, s *model.EndpointSlice) [][]byte {
	for i := range s.Hosts {
		if node := s.Hosts[i].Node; node != "" {
			keys = append(keys, join(node, s.Namespace, s.Name))
		}
	}
	return keys
}

func authorizationSelection(p *model.AuthorizationPolicy) (*model.Selection, *model.Meta) {
	return &p.Selection, &p.Meta
}

func tokenSelection(a *model.RequestAuthentication) (*model.Selection, *model.Meta) {
	return &a.Selection, &a.Meta
}

func telemetrySelection(t *model.Telemetry) (*model.Selection, *model.Meta) {
	return &t.Selection, &t.Meta
}

func envoyFilterSelection(f *model.EnvoyFilter) (*model.Selection, *model.Meta) {
	return &f.Selection, &f.Meta
}

func peerAuthenticationKey(p *model.PeerAuthentication) []byte {
	return ordered(join(p.Namespace), &p.Meta, "")
}

// AnyIngress stands for the gateways of all Ingresses where VirtualServicesAt wants the name of
// one.
const AnyIngress = "*"

// gatewaysOf returns the gateways under which a VirtualService is found.
func gatewaysOf(v *model.VirtualService) []string {
	if v.Kind == kinds.Ingress {
		return append(slices.Clone(v.Gateways), AnyIngress)
	}
	return v.Gateways
}

func virtualServiceMeta(v *model.VirtualService) *model.Meta { return &v.Meta }

// DestinationHosts are the hosts that a VirtualService routes or mirrors to, sorted, each once.
func DestinationHosts(v *model.VirtualService) []model.Host {
	var hosts []model.Host
	add := func(ds []model.Destination) {
		for _, d := range ds {
			hosts = append(hosts, d.Host)
		}
	}
	for _, r := range v.HTTP {
		add(r.Destinations)
		for _, m := range r.Mirrors {
			hosts = append(hosts, m.Destination.Host)
		}
	}
	for _, r := range v.TLS {
		add(r.Destinations)
	}
	for _, r := range v.TCP {
		add(r.Destinations)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// sourceSelectors are the sourceLabels in a VirtualService's matches.
func sourceSelectors(v *model.VirtualService) []model.Labels {
	var found []model.Labels
	add := func(l model.Labels) {
		if !l.IsEmpty() {
			found = append(found, l)
		}
	}
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
	return found
}
