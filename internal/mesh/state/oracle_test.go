package state

import (
	stdcmp "cmp"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// Whatever changes came in whatever steps, the snapshot answers as one that looks at all objects
// each time, and its delta is the difference of what there was and is.
func TestSnapshotEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, writer := meshlife.NewHistory(), NewWriter()
		writer.AllocateFrom(smallRange())
		before, published := naiveSnapshot{}, naiveSnapshot{}
		var held *Delta
		step := func(updates []meshlife.Update) {
			from := writer.Snapshot()
			s, d := writer.Apply(stateUpdates(updates))
			now := naiveSnapshotOf(h.Present())
			requireAnswers(t, now, s)
			requireDelta(t, before, now, d)
			if d.IsEmpty() {
				require.Equal(t, from.Generation, s.Generation)
			}
			before, held = now, held.Compose(d)
			if rapid.IntRange(0, 2).Draw(t, "held") > 0 {
				requireDelta(t, published, now, held)
				require.Same(t, s, held.To)
				published, held = now, nil
			}
		}
		step(h.Begin(t))
		for range rapid.SampledFrom([]int{1, 4, 12, 16}).Draw(t, "steps") {
			updates := h.Next(t).Updates
			for range rapid.SampledFrom([]int{0, 0, 2, 6, 12}).Draw(t, "in one batch") {
				updates = append(updates, h.Next(t).Updates...)
			}
			step(updates)
		}
	})
}

func stateUpdates(updates []meshlife.Update) []Update {
	var list []Update
	for _, u := range updates {
		list = append(list, Update{Key: u.Key, Objects: u.Objects})
	}
	return list
}

func requireSame[T any](t *rapid.T, what string, want, got T) {
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (- of all objects, + of the snapshot):\n%s", what, diff)
	}
}

func requireList[T any](t *rapid.T, what string, want []*T, got iter.Seq[*T]) {
	requireSame(t, what, names(want), names(slices.Collect(got)))
}

func requireAnswers(t *rapid.T, d naiveSnapshot, s *Snapshot) {
	mesh := d.mesh()
	requireSame(t, "mesh", model.Fingerprint(&mesh), model.Fingerprint(s.Mesh))
	requireSame(t, "counts", d.counts(), s.Counts())
	for _, h := range d.hostsNamed() {
		requireHost(t, d, s, h)
	}
	for _, n := range []string{"default", "shop", "istio-system"} {
		services := of(d, func(svc *model.Service) bool { return svc.Namespace == n })
		slices.SortStableFunc(services, func(a, b *model.Service) int { return compareHosts(a.Host, b.Host) })
		requireList(t, "services in "+n, services, s.ServicesIn(n))
		requireList(t, "Sidecars of "+n, of(d, func(s *model.Sidecar) bool { return s.Namespace == n }), s.Sidecars(n))
		requireDifferences(t, d, s, n)
		authorization := of(d, func(p *model.AuthorizationPolicy) bool { return p.Namespace == n })
		requireList(t, "AuthorizationPolicies of "+n, authorization, s.AuthorizationPolicies(n))
		authentication := of(d, func(p *model.PeerAuthentication) bool { return p.Namespace == n })
		requireList(t, "PeerAuthentications of "+n, authentication, s.PeerAuthentications(n))
		tokens := of(d, func(a *model.RequestAuthentication) bool { return a.Namespace == n })
		requireList(t, "RequestAuthentications of "+n, tokens, s.RequestAuthentications(n))
		requireSelections(t, d, s, n)
		telemetries := of(d, func(o *model.Telemetry) bool { return o.Namespace == n })
		requireList(t, "Telemetries of "+n, telemetries, s.Telemetries(n))
		starts := of(d, func(c *model.ProxyConfig) bool { return c.Namespace == n })
		requireList(t, "ProxyConfigs of "+n, starts, s.ProxyConfigs(n))
		for _, name := range []string{"a", "b", "c", "nobody"} {
			requireNamed(t, d, s, n, name)
		}
		named := of(d, func(e *model.WorkloadEntry) bool { return e.Namespace == n && net.ParseIP(e.Address) == nil })
		slices.SortFunc(named, func(a, b *model.WorkloadEntry) int { return strings.Compare(a.Name, b.Name) })
		requireList(t, "WorkloadEntries with a host name in "+n, named, s.NamedWorkloadEntriesIn(n))
		requireListing(t, d, s, n)
	}
	for _, uri := range []string{"https://a.test/keys", "https://b.test/keys", "https://nowhere.test/keys"} {
		wanted := of(d, func(a *model.RequestAuthentication) bool { return slices.Contains(a.KeySets(), uri) })
		requireList(t, "RequestAuthentications with "+uri, wanted, s.RequestAuthenticationsWith(uri))
		set := of(d, func(k *model.KeySet) bool { return k.URI == uri })
		require.Equal(t, len(set) > 0, s.KeySet(uri) != nil, uri)
		if len(set) > 0 {
			require.True(t, model.Equal(set[0], s.KeySet(uri)), uri)
		}
	}
	for _, p := range []uint16{80, 9080, 3306, 1} {
		tcp := speaking(d, p, model.TCP, model.Auto)
		requireList(t, "TCP services", tcp, s.TCPServicesOn(p))
		requireList(t, "TLS services", speaking(d, p, model.TLS), s.TLSServicesOn(p))
		for i, svc := range tcp {
			requireList(t, "TCP services after one", tcp[i+1:], s.TCPServicesAfter(p, svc))
		}
		for _, kind := range []PortMatch{MatchSNI, MatchPort, MatchCIDR, MatchFiltered} {
			loose := looseOn(d, p, kind)
			requireList(t, "loose services", loose, s.ServicesByPortMatch(p, kind))
			for i, svc := range loose {
				requireList(t, "loose services after one", loose[i+1:], s.ServicesByPortMatchAfter(p, kind, svc))
			}
		}
		for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.1.0.0/16"} {
			requireList(t, "services at a virtual IP", servicesAt(d, a, p), s.ServicesAt(a, p))
		}
		requireServicesOfPods(t, d, s, p)
	}
	for _, p := range of(d, all[model.Workload]) {
		requireSelecting(t, d, s, p)
		requireSame(t, "locality", d.localityOf(p), s.LocalityOf(p))
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		require.ElementsMatch(
			t,
			names(of(d, func(p *model.Workload) bool { return p.Node == n })),
			names(slices.Collect(s.WorkloadsOn(n))),
		)
	}
	requireList(t, "Gateways", of(d, all[model.Gateway]), s.Gateways())
	requireList(t, "forwarding Gateways", of(d, (*model.Gateway).ForwardsAny), s.ForwardingGateways())
	presents := func(g *model.Gateway) bool { return g.Presents != "" }
	requireList(t, "presenting Gateways", of(d, presents), s.PresentingGateways())
	for _, name := range []string{"a", "b", "nobody"} {
		names := func(n []string) bool { return slices.Contains(n, name) }
		requireList(t, "Gateways with "+name, of(
			d, func(g *model.Gateway) bool { return names(g.Credentials()) },
		), s.GatewaysWith(name))
		requireList(t, "rules with "+name, of(
			d, func(r *model.DestinationRule) bool { return names(r.Credentials()) },
		), s.DestinationRulesWith(name))
	}
	require.ElementsMatch(t, names(of(d, all[model.VirtualService])), names(slices.Collect(s.VirtualServices())))
	require.ElementsMatch(t, names(of(d, all[model.Service])), names(slices.Collect(s.Services())))
	require.ElementsMatch(
		t, names(of(d, all[model.DelegationStatus])),
		names(slices.Collect(s.Delegations())),
	)
	requireAutoAddresses(t, d, s)
}

// speaking are the services with a port of one of the protocols; hosts of one ServiceEntry by name.
func speaking(d naiveSnapshot, port uint16, protocols ...model.Protocol) []*model.Service {
	return having(d, func(_ *model.Service, p model.ServicePort) bool {
		return p.Port == port && slices.Contains(protocols, p.Protocol)
	})
}

func looseOn(d naiveSnapshot, port uint16, want PortMatch) []*model.Service {
	return having(d, func(svc *model.Service, p model.ServicePort) bool {
		ranged := slices.ContainsFunc(svc.Addresses, func(a string) bool { return strings.Contains(a, "/") })
		kind := MatchPort
		if want == MatchFiltered {
			named := svc.Resolution == model.DynamicDNS && p.Protocol.IsHTTP()
			return p.Port == port && (named || p.Protocol == model.GRPCWeb)
		}
		switch {
		case p.Port != port || p.Protocol == model.UDP || p.Protocol.IsHTTP() || len(svc.Addresses) > 0 && !ranged,
			isNaivelyCalledByPod(svc):
			return false
		case ranged:
			kind = MatchCIDR
		case p.Protocol == model.TLS:
			kind = MatchSNI
		case svc.Kind == kinds.Service && svc.Resolution == model.StrictDNS: // of type ExternalName
			return false
		}
		return kind == want
	})
}

func servicesAt(d naiveSnapshot, address string, port uint16) []*model.Service {
	return having(d, func(svc *model.Service, p model.ServicePort) bool {
		return p.Port == port && p.Protocol != model.UDP && !strings.Contains(address, "/") &&
			slices.Contains(svc.Addresses, address)
	})
}

// having are the services with such a port, in the total order.
func having(d naiveSnapshot, match func(*model.Service, model.ServicePort) bool) []*model.Service {
	found := of(d, func(svc *model.Service) bool {
		return slices.ContainsFunc(svc.Ports, func(p model.ServicePort) bool { return match(svc, p) })
	})
	slices.SortStableFunc(found, inTotalOrder)
	return found
}

func inTotalOrder(a, b *model.Service) int {
	if order := a.Compare(&b.Meta); order != 0 {
		return order
	}
	return compareHosts(a.Host, b.Host)
}

// requireSelections checks which policies of a namespace have each selector.
func requireSelections(t *rapid.T, d naiveSnapshot, s *Snapshot, n string) {
	for _, l := range append(d.selectors(), model.Labels{}) {
		has := func(selection *model.Selection) bool { return slices.Contains(selection.Selectors(), l) }
		requireList(t, "AuthorizationPolicies for "+l.String(), of(d, func(p *model.AuthorizationPolicy) bool {
			return p.Namespace == n && has(&p.Selection)
		}), s.AuthorizationPoliciesFor(n, l))
		requireList(t, "RequestAuthentications for "+l.String(), of(d, func(a *model.RequestAuthentication) bool {
			return a.Namespace == n && has(&a.Selection)
		}), s.RequestAuthenticationsFor(n, l))
		requireList(t, "Telemetries for "+l.String(), of(d, func(o *model.Telemetry) bool {
			return o.Namespace == n && has(&o.Selection)
		}), s.TelemetriesFor(n, l))
		requireList(t, "EnvoyFilters for "+l.String(), of(d, func(o *model.EnvoyFilter) bool {
			return o.Namespace == n && has(&o.Selection)
		}), s.EnvoyFiltersFor(n, l))
	}
	requireList(t, "EnvoyFilters by proxy", of(d, func(f *model.EnvoyFilter) bool {
		return f.Namespace == n && slices.ContainsFunc(f.Patches, func(p *model.ConfigPatch) bool {
			return p.Proxy != (model.ProxyMatch{})
		})
	}), s.EnvoyFiltersByProxy(n))
	require.Equal(t, len(of(d, all[model.EnvoyFilter])) > 0, s.HasEnvoyFilters())
	for _, w := range of(d, all[model.Workload]) {
		want, root := MTLS{}, d.mesh().RootNamespace
		first := func(in string, own bool) *model.PeerAuthentication {
			found := of(d, func(p *model.PeerAuthentication) bool {
				return p.Namespace == in && p.Selector.IsEmpty() != own && p.Selector.Selects(w.Labels)
			})
			if len(found) == 0 {
				return nil
			}
			return found[0]
		}
		want.Own, want.Namespace, want.Mesh = first(n, true), first(n, false), first(root, false)
		got := s.MTLSFor(n, w.Labels)
		for _, pair := range [][2]*model.PeerAuthentication{
			{want.Own, got.Own}, {want.Namespace, got.Namespace}, {want.Mesh, got.Mesh},
		} {
			require.True(t, model.Equal(pair[0], pair[1]), "PeerAuthentications of %s", w.Name)
		}
	}
}

// requireSelecting checks what selects a workload.
func requireSelecting(t *rapid.T, d naiveSnapshot, s *Snapshot, p *model.Workload) {
	selects := func(svc *model.Service) bool {
		return svc.Namespace == p.Namespace && !svc.Selector.IsEmpty() && svc.Selector.Selects(p.Labels)
	}
	require.ElementsMatch(t, names(of(d, selects)), names(slices.Collect(s.ServicesSelecting(p.Namespace, p.Labels))))
	want, got := []string{}, []string{}
	for _, s := range d.selectors() {
		if s.Selects(p.Labels) {
			want = append(want, s.String())
		}
	}
	for s := range s.SelectorsOf(p.Labels) {
		got = append(got, s.String())
	}
	slices.Sort(want)
	slices.Sort(got)
	requireSame(t, "selectors", want, slices.Compact(got))
}

// requireDifferences compares what is not the same for all namespaces.
func requireDifferences(t *rapid.T, d naiveSnapshot, s *Snapshot, n string) {
	to := func(e model.Exports, owner string) bool { return !e.Visible("none", "of them") && e.Visible(owner, n) }
	services := of(d, func(svc *model.Service) bool { return to(svc.ExportTo, svc.Namespace) })
	require.ElementsMatch(t, names(services), names(slices.Collect(s.ServicesExportedTo(n))), "services exported to "+n)
	requireList(t, "routes exported to "+n, of(
		d, func(v *model.VirtualService) bool { return to(v.ExportTo, v.Namespace) },
	), s.VirtualServicesExportedTo(n))
	requireList(t, "rules exported to "+n, of(
		d, func(r *model.DestinationRule) bool { return to(r.ExportTo, r.Namespace) },
	), s.DestinationRulesExportedTo(n))
	requireList(t, "rules in "+n, of(
		d, func(r *model.DestinationRule) bool { return r.Namespace == n },
	), s.DestinationRulesIn(n))
	requireList(t, "routes by source", of(d, matchesSource), s.VirtualServicesBySource())
}

func compareHosts(a, b model.Host) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// requireListing looks up the ServiceEntries of a namespace by each address that any of them lists.
func requireListing(t *rapid.T, d naiveSnapshot, s *Snapshot, namespace string) {
	listing := map[string][]*model.Service{"192.0.2.99": nil}
	for _, entry := range of(d, func(svc *model.Service) bool { return svc.Kind == kinds.ServiceEntry }) {
		for _, e := range entry.Endpoints {
			all := listing[e.Address]
			if entry.Namespace == namespace && !slices.Contains(all, entry) {
				all = append(all, entry)
			}
			listing[e.Address] = all
		}
	}
	for _, address := range slices.Sorted(maps.Keys(listing)) {
		want := listing[address]
		slices.SortStableFunc(want, func(a, b *model.Service) int {
			return stdcmp.Or(a.Compare(&b.Meta), strings.Compare(string(a.Host), string(b.Host)))
		})
		requireList(t, "services that list "+address, want, s.ServicesListing(namespace, address))
	}
}

func requireHost(t *rapid.T, d naiveSnapshot, s *Snapshot, h model.Host) {
	claims := of(d, func(svc *model.Service) bool { return svc.Host == h })
	routes := of(d, func(v *model.VirtualService) bool { return slices.Contains(v.Hosts, h) })
	requireList(t, "claims", claims, s.Claims(h))
	aliases := of(d, func(svc *model.Service) bool { return svc.IsAlias() && svc.AliasOf == h })
	requireList(t, "aliases", aliases, s.AliasesOf(h))
	tracing := of(d, func(o *model.Telemetry) bool {
		return slices.ContainsFunc(o.Tracing, func(r model.TracingRule) bool {
			return r.Tracer != nil && r.Tracer.Host == h
		})
	})
	requireList(t, "Telemetries that trace to", tracing, s.TelemetriesTracingTo(h))
	requireList(t, "routes of", routes, s.VirtualServicesOf(h))
	requireList(t, "routes to", of(
		d, func(v *model.VirtualService) bool { return slices.Contains(naiveDestinations(v), h) },
	), s.VirtualServicesTo(h))
	requireList(t, "EnvoyFilters that call", of(d, func(f *model.EnvoyFilter) bool {
		return slices.Contains(f.Calls, h)
	}), s.EnvoyFiltersCalling(h))
	requireList(t, "rules", of(d, func(r *model.DestinationRule) bool { return r.Host == h }), s.DestinationRulesOf(h))
	require.Equal(t, len(claims)+len(routes) > 0, s.HasHost(h), h)
	if h.IsWildcard() {
		named := of(d, func(v *model.VirtualService) bool {
			return slices.ContainsFunc(v.Hosts, func(o model.Host) bool { return under(h, o) })
		})
		found := map[*model.VirtualService]bool{}
		for v := range s.VirtualServicesUnder(h) {
			found[v] = true
		}
		require.ElementsMatch(t, names(named), names(slices.Collect(maps.Keys(found))), h)
		hosts := map[model.Host]bool{}
		for _, svc := range of(d, func(svc *model.Service) bool { return under(h, svc.Host) }) {
			hosts[svc.Host] = true
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(hosts)), slices.Collect(s.HostsUnder(h)))
	}
	for _, svc := range claims {
		requireSame(
			t,
			"accounts of "+string(h)+" in "+svc.Namespace,
			d.accounts(naiveID(svc)),
			slices.Clip(s.Accounts(svc)),
		)
		requireSame(t, "endpoints of "+string(h)+" in "+svc.Namespace, endpointTexts(
			maps.All(d.endpoints(naiveID(svc))),
		), endpointTexts(s.Endpoints(svc).All()))
		requireAllTakeTLS(t, d, s, svc)
	}
}

func endpointTexts(all iter.Seq2[EndpointID, model.Endpoint]) []string {
	list := []string{}
	for id, e := range all {
		list = append(list, fmt.Sprintf("%s %+v", id, e))
	}
	slices.Sort(list)
	return list
}

func requireNamed(t *rapid.T, d naiveSnapshot, s *Snapshot, namespace, name string) {
	gateways := of(d, func(g *model.Gateway) bool { return g.Namespace == namespace && g.Name == name })
	requireSame(t, "Gateway", names(gateways), names(present(s.Gateway(namespace+"/"+name))))
	workloads := of(d, func(p *model.Workload) bool { return p.Namespace == namespace && p.Name == name })
	requireSame(t, "workload", names(workloads), names(present(s.Workload(namespace, name))))
	credentials := of(d, func(c *model.Credential) bool { return c.Namespace == namespace && c.Name == name })
	requireSame(t, "credential", names(credentials), names(present(s.Credential(namespace, name))))
	full := namespace + "/" + name
	requireList(t, "routes at "+full, of(
		d, func(v *model.VirtualService) bool { return slices.Contains(v.Gateways, full) },
	), s.VirtualServicesAt(full))
}

func present[T any](o *T) []*T {
	if o == nil {
		return nil
	}
	return []*T{o}
}

// requireDelta checks that a delta is the difference of what there was and what there is.
func requireDelta(t *rapid.T, before, now naiveSnapshot, d *Delta) {
	requirePairs(t, before, now, d.Services)
	requirePairs(t, before, now, d.VirtualServices)
	requirePairs(t, before, now, d.Delegations)
	requirePairs(t, before, now, d.DestinationRules)
	requirePairs(t, before, now, d.Gateways)
	requirePairs(t, before, now, d.Sidecars)
	requirePairs(t, before, now, d.AuthorizationPolicies)
	requirePairs(t, before, now, d.PeerAuthentications)
	requirePairs(t, before, now, d.RequestAuthentications)
	requirePairs(t, before, now, d.Telemetries)
	requirePairs(t, before, now, d.EnvoyFilters)
	requirePairs(t, before, now, d.ProxyConfigs)
	requirePairs(t, before, now, d.KeySets)
	requirePairs(t, before, now, d.Credentials)
	requirePairs(t, before, now, d.Workloads)
	requirePairs(t, before, now, d.Nodes)
	requirePairs(t, before, now, d.WorkloadEntries)
	was, is := before.mesh(), now.mesh()
	require.Equal(t, model.Fingerprint(&was) != model.Fingerprint(&is), d.Mesh)
	requireAddressChanges(t, before, now, d)
	requireEndpointChanges(t, before, now, d)
	requireAccountsChanges(t, before, now, d)
}

func requirePairs[T any](t *rapid.T, before, now naiveSnapshot, pairs []Pair[T]) {
	count := map[string]int{}
	add := func(list []*T, n int) {
		for _, name := range names(list) {
			count[name] += n
		}
	}
	add(of(before, all[T]), 1)
	for _, p := range pairs {
		require.False(t, p.Old == nil && p.New == nil)
		if p.Old != nil && p.New != nil {
			require.NotEqual(t, model.Fingerprint(p.Old), model.Fingerprint(p.New), "equal objects are in the delta")
		}
		add(present(p.Old), -1)
		add(present(p.New), 1)
	}
	add(of(now, all[T]), -1)
	for name, n := range count {
		require.Zero(t, n, "%s: the delta does not lead from what there was to what there is", name)
	}
}

func requireEndpointChanges(t *rapid.T, before, now naiveSnapshot, d *Delta) {
	got, want := map[string][]EndpointID{}, map[string][]EndpointID{}
	for _, e := range d.Endpoints {
		id := serviceID{e.Host, e.Namespace, e.Entry}
		require.NotContains(t, got, fmt.Sprint(id))
		got[fmt.Sprint(id)] = e.IDs
		requireSame(t, "endpoints before", endpointTexts(maps.All(before.endpoints(id))), endpointTexts(e.From.All()))
		requireSame(t, "endpoints after", endpointTexts(maps.All(now.endpoints(id))), endpointTexts(e.To.All()))
	}
	ids := before.withEndpoints()
	maps.Copy(ids, now.withEndpoints())
	for id := range ids {
		if changed := differences(before.endpoints(id), now.endpoints(id)); len(changed) > 0 {
			want[fmt.Sprint(id)] = changed
		}
	}
	requireSame(t, "changed endpoints", want, got)
}

func requireAccountsChanges(t *rapid.T, before, now naiveSnapshot, d *Delta) {
	type sets struct{ was, is []string }
	got, want := map[serviceID]sets{}, map[serviceID]sets{}
	for _, a := range d.Accounts {
		id := serviceID{a.Host, a.Namespace, a.Entry}
		require.NotContains(t, got, id)
		got[id] = sets{slices.Clip(a.From), slices.Clip(a.To)}
	}
	ids := before.withEndpoints()
	maps.Copy(ids, now.withEndpoints())
	for id := range ids {
		if was, is := before.accounts(id), now.accounts(id); !slices.Equal(was, is) {
			want[id] = sets{was, is}
		}
	}
	require.Equal(t, len(want), len(got), "changed accounts: want %v, got %v", want, got)
	for id, w := range want {
		require.True(
			t,
			slices.Equal(w.was, got[id].was) && slices.Equal(w.is, got[id].is),
			"%v: want %v, got %v",
			id,
			w,
			got[id],
		)
	}
}

func differences(was, is map[EndpointID]model.Endpoint) []EndpointID {
	var ids []EndpointID
	for id, e := range was {
		if after, ok := is[id]; !ok || after != e {
			ids = append(ids, id)
		}
	}
	for id := range is {
		if _, ok := was[id]; !ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
