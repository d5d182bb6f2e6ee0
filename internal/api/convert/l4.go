package convert

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// tlsRoute reads one entry of spec.tls. A broken one whose names cannot be read covers all hosts of
// its VirtualService.
func (r *reader) tlsRoute(p path, in *networking.TLSRoute, hosts []model.Host) *model.TLSRoute {
	start := r.mark()
	out := &model.TLSRoute{}
	for i, m := range in.GetMatch() {
		at := p.dot("match").at(i)
		match := r.l4Match(at, m)
		match.SNIHosts = r.sniHosts(at.dot("sniHosts"), m.GetSniHosts(), hosts)
		out.Matches = append(out.Matches, r.pools.l4Matches.Canonical(match))
	}
	if len(out.Matches) == 0 {
		r.fail(p.dot("match"), nil, "is empty", "at least one match with sniHosts")
		out.Matches = append(out.Matches, r.pools.l4Matches.Canonical(&model.L4Match{SNIHosts: hosts}))
	}
	out.Destinations = r.l4Destinations(p.dot("route"), in.GetRoute())
	if out.Broken = r.failure(start, p); out.Broken != "" {
		out.Destinations = nil
	}
	return r.pools.tlsRoutes.Canonical(out)
}

// sniHosts reads server names, which must be among the hosts of the VirtualService.
func (r *reader) sniHosts(p path, list []string, hosts []model.Host) []model.Host {
	var out []model.Host
	if len(list) == 0 {
		r.fail(p, nil, "is empty", wantWildcard)
	}
	for i, text := range list {
		host, ok := r.literal(p.at(i), text, true)
		if !ok {
			return hosts
		}
		if !slices.ContainsFunc(hosts, func(h model.Host) bool { return h.Covers(host) }) {
			r.fail(
				p.at(i), text, "is not among the hosts of the VirtualService",
				"one of spec.hosts, or below a wildcard of them",
			)
		}
		out = append(out, host)
	}
	if len(out) == 0 {
		return hosts
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *reader) tcpRoute(p path, in *networking.TCPRoute) *model.TCPRoute {
	start := r.mark()
	out := &model.TCPRoute{}
	for i, m := range in.GetMatch() {
		at := p.dot("match").at(i)
		if m.GetSourceSubnet() != "" {
			r.fail(at.dot("sourceSubnet"), m.GetSourceSubnet(), "is not supported", "sourceLabels or sourceNamespace")
		}
		out.Matches = append(out.Matches, r.pools.l4Matches.Canonical(r.l4Match(at, m)))
	}
	out.Destinations = r.l4Destinations(p.dot("route"), in.GetRoute())
	if out.Broken = r.failure(start, p); out.Broken != "" {
		out.Destinations = nil
	}
	return r.pools.tcpRoutes.Canonical(out)
}

func (r *reader) l4Destinations(p path, list []*networking.RouteDestination) []model.Destination {
	if len(list) == 0 {
		r.fail(p, nil, "is empty", "at least one destination")
	}
	return destinations(r, p, list)
}

// l4Conditions is what matches of TLS and TCP routes have in common.
type l4Conditions interface {
	GetDestinationSubnets() []string
	GetPort() uint32
	GetSourceLabels() map[string]string
	GetGateways() []string
	GetSourceNamespace() string
}

func (r *reader) l4Match(p path, in l4Conditions) *model.L4Match {
	m := &model.L4Match{
		DestinationSubnets: r.prefixes(p.dot("destinationSubnets"), in.GetDestinationSubnets()),
		SourceNamespace:    r.sourceNamespace(p.dot("sourceNamespace"), in.GetSourceNamespace()),
		Gateways:           r.gateways(p.dot("gateways"), in.GetGateways()),
	}
	if in.GetPort() != 0 {
		m.Port, _ = r.port(p.dot("port"), int64(in.GetPort()))
	}
	m.SourceLabels, _ = r.selector(p.dot("sourceLabels"), in.GetSourceLabels())
	return m
}
