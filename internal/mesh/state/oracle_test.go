package state

import (
	"fmt"
	"iter"
	"maps"
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

// Whatever changes came in whatever steps, the snapshot answers as one that looks at all objects each time, and its delta is the
// difference of what there was and is.
func TestSnapshotEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, writer := meshlife.NewHistory(), NewWriter()
		before, published := dumbSnapshot{}, dumbSnapshot{}
		var held *Delta
		step := func(updates []meshlife.Update) {
			from := writer.Snapshot()
			w, d := writer.Apply(stateUpdates(updates))
			now := dumbSnapshotOf(h.Present())
			requireAnswers(t, now, w)
			requireDelta(t, before, now, d)
			if d.IsEmpty() {
				require.Equal(t, from.Generation, w.Generation)
			}
			before, held = now, held.Then(d)
			if rapid.IntRange(0, 2).Draw(t, "held") > 0 {
				requireDelta(t, published, now, held)
				require.Same(t, w, held.To)
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

func requireAnswers(t *rapid.T, d dumbSnapshot, w *Snapshot) {
	mesh := d.mesh()
	requireSame(t, "mesh", model.Fingerprint(&mesh), model.Fingerprint(w.Mesh))
	requireSame(t, "counts", d.counts(), w.Counts())
	for _, h := range d.hostsNamed() {
		requireHost(t, d, w, h)
	}
	for _, n := range []string{"default", "shop", "istio-system"} {
		services := of(d, func(s *model.Service) bool { return s.Namespace == n })
		slices.SortStableFunc(services, func(a, b *model.Service) int { return compareHosts(a.Host, b.Host) })
		requireList(t, "services in "+n, services, w.ServicesIn(n))
		requireList(t, "Sidecars of "+n, of(d, func(s *model.Sidecar) bool { return s.Namespace == n }), w.Sidecars(n))
		requireApart(t, d, w, n)
		authorization := of(d, func(p *model.AuthorizationPolicy) bool { return p.Namespace == n })
		requireList(t, "AuthorizationPolicies of "+n, authorization, w.AuthorizationPolicies(n))
		authentication := of(d, func(p *model.PeerAuthentication) bool { return p.Namespace == n })
		requireList(t, "PeerAuthentications of "+n, authentication, w.PeerAuthentications(n))
		for _, name := range []string{"a", "b", "c", "nobody"} {
			requireNamed(t, d, w, n, name)
		}
	}
	for _, p := range []uint16{80, 9080, 3306, 1} {
		tcp := speaking(d, p, model.TCP, model.Auto)
		requireList(t, "TCP services", tcp, w.TCPServicesOn(p))
		requireList(t, "TLS services", speaking(d, p, model.TLS), w.TLSServicesOn(p))
		for i, s := range tcp {
			requireList(t, "TCP services after one", tcp[i+1:], w.TCPServicesAfter(p, s))
		}
		for _, kind := range []Loose{LooseTLS, LooseTCP, LooseRange} {
			loose := looseOn(d, p, kind)
			requireList(t, "loose services", loose, w.LooseServicesOn(p, kind))
			for i, s := range loose {
				requireList(t, "loose services after one", loose[i+1:], w.LooseServicesAfter(p, kind, s))
			}
		}
		for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.1.0.0/16"} {
			requireList(t, "services at a virtual IP", servicesAt(d, a, p), w.ServicesAt(a, p))
		}
	}
	for _, p := range of(d, all[model.Workload]) {
		requireSelecting(t, d, w, p)
		requireSame(t, "locality", d.localityOf(p), w.LocalityOf(p))
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		require.ElementsMatch(t, names(of(d, func(p *model.Workload) bool { return p.Node == n })), names(slices.Collect(w.WorkloadsOn(n))))
	}
	requireList(t, "Gateways", of(d, all[model.Gateway]), w.Gateways())
	requireList(t, "forwarding Gateways", of(d, (*model.Gateway).ForwardsAny), w.ForwardingGateways())
	for _, name := range []string{"a", "b", "nobody"} {
		names := func(n []string) bool { return slices.Contains(n, name) }
		requireList(t, "Gateways with "+name, of(d, func(g *model.Gateway) bool { return names(g.Credentials()) }), w.GatewaysWith(name))
		requireList(t, "rules with "+name, of(d, func(r *model.DestinationRule) bool { return names(r.Credentials()) }), w.DestinationRulesWith(name))
	}
	require.ElementsMatch(t, names(of(d, all[model.VirtualService])), names(slices.Collect(w.VirtualServices())))
	require.ElementsMatch(t, names(of(d, all[model.Service])), names(slices.Collect(w.Services())))
}

// speaking are the services with a port of one of the protocols; hosts of one ServiceEntry by name.
func speaking(d dumbSnapshot, port uint16, protocols ...model.Protocol) []*model.Service {
	return having(d, func(_ *model.Service, p model.ServicePort) bool {
		return p.Port == port && slices.Contains(protocols, p.Protocol)
	})
}

func looseOn(d dumbSnapshot, port uint16, want Loose) []*model.Service {
	return having(d, func(s *model.Service, p model.ServicePort) bool {
		ranged := slices.ContainsFunc(s.Addresses, func(a string) bool { return strings.Contains(a, "/") })
		kind := LooseTCP
		switch {
		case p.Port != port || p.Protocol == model.UDP || p.Protocol.IsHTTP() || len(s.Addresses) > 0 && !ranged:
			return false
		case ranged:
			kind = LooseRange
		case p.Protocol == model.TLS:
			kind = LooseTLS
		case s.Kind == kinds.Service && s.Resolution == model.StrictDNS: // of type ExternalName
			return false
		}
		return kind == want
	})
}

func servicesAt(d dumbSnapshot, address string, port uint16) []*model.Service {
	return having(d, func(s *model.Service, p model.ServicePort) bool {
		return p.Port == port && p.Protocol != model.UDP && !strings.Contains(address, "/") && slices.Contains(s.Addresses, address)
	})
}

// having are the services with such a port, in the total order.
func having(d dumbSnapshot, match func(*model.Service, model.ServicePort) bool) []*model.Service {
	found := of(d, func(s *model.Service) bool {
		return slices.ContainsFunc(s.Ports, func(p model.ServicePort) bool { return match(s, p) })
	})
	slices.SortStableFunc(found, func(a, b *model.Service) int {
		if order := a.Compare(&b.Meta); order != 0 {
			return order
		}
		return compareHosts(a.Host, b.Host)
	})
	return found
}

// requireSelecting checks what selects a workload.
func requireSelecting(t *rapid.T, d dumbSnapshot, w *Snapshot, p *model.Workload) {
	selects := func(s *model.Service) bool {
		return s.Namespace == p.Namespace && !s.Selector.IsEmpty() && s.Selector.Selects(p.Labels)
	}
	require.ElementsMatch(t, names(of(d, selects)), names(slices.Collect(w.ServicesSelecting(p.Namespace, p.Labels))))
	want, got := []string{}, []string{}
	for _, s := range d.selectors() {
		if s.Selects(p.Labels) {
			want = append(want, s.String())
		}
	}
	for s := range w.SelectorsOf(p.Labels) {
		got = append(got, s.String())
	}
	slices.Sort(want)
	slices.Sort(got)
	requireSame(t, "selectors", want, slices.Compact(got))
}

// requireApart compares what is not the same for all namespaces.
func requireApart(t *rapid.T, d dumbSnapshot, w *Snapshot, n string) {
	to := func(e model.Exports, owner string) bool { return !e.Visible("none", "of them") && e.Visible(owner, n) }
	services := of(d, func(s *model.Service) bool { return to(s.ExportTo, s.Namespace) })
	require.ElementsMatch(t, names(services), names(slices.Collect(w.ServicesExportedTo(n))), "services exported to "+n)
	requireList(t, "routes exported to "+n, of(d, func(v *model.VirtualService) bool { return to(v.ExportTo, v.Namespace) }), w.VirtualServicesExportedTo(n))
	requireList(t, "rules exported to "+n, of(d, func(r *model.DestinationRule) bool { return to(r.ExportTo, r.Namespace) }), w.DestinationRulesExportedTo(n))
	requireList(t, "rules in "+n, of(d, func(r *model.DestinationRule) bool { return r.Namespace == n }), w.DestinationRulesIn(n))
	requireList(t, "routes by source", of(d, asksForSource), w.VirtualServicesBySource())
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

func requireHost(t *rapid.T, d dumbSnapshot, w *Snapshot, h model.Host) {
	claims := of(d, func(s *model.Service) bool { return s.Host == h })
	routes := of(d, func(v *model.VirtualService) bool { return slices.Contains(v.Hosts, h) })
	requireList(t, "claims", claims, w.Claims(h))
	requireList(t, "routes of", routes, w.VirtualServicesOf(h))
	requireList(t, "routes to", of(d, func(v *model.VirtualService) bool { return slices.Contains(dumbDestinations(v), h) }), w.VirtualServicesTo(h))
	requireList(t, "rules", of(d, func(r *model.DestinationRule) bool { return r.Host == h }), w.DestinationRulesOf(h))
	require.Equal(t, len(claims)+len(routes) > 0, w.Names(h), h)
	if h.IsWildcard() {
		named := of(d, func(v *model.VirtualService) bool {
			return slices.ContainsFunc(v.Hosts, func(o model.Host) bool { return under(h, o) })
		})
		found := map[*model.VirtualService]bool{}
		for v := range w.VirtualServicesUnder(h) {
			found[v] = true
		}
		require.ElementsMatch(t, names(named), names(slices.Collect(maps.Keys(found))), h)
		hosts := map[model.Host]bool{}
		for _, s := range of(d, func(s *model.Service) bool { return under(h, s.Host) }) {
			hosts[s.Host] = true
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(hosts)), slices.Collect(w.HostsUnder(h)))
	}
	for _, s := range claims {
		requireSame(t, "accounts of "+string(h)+" in "+s.Namespace, d.accounts(dumbID(s)), slices.Clip(w.Accounts(s)))
		requireSame(t, "endpoints of "+string(h)+" in "+s.Namespace, endpointTexts(maps.All(d.endpoints(dumbID(s)))), endpointTexts(w.Endpoints(s).All()))
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

func requireNamed(t *rapid.T, d dumbSnapshot, w *Snapshot, namespace, name string) {
	gateways := of(d, func(g *model.Gateway) bool { return g.Namespace == namespace && g.Name == name })
	requireSame(t, "Gateway", names(gateways), names(present(w.Gateway(namespace+"/"+name))))
	workloads := of(d, func(p *model.Workload) bool { return p.Namespace == namespace && p.Name == name })
	requireSame(t, "workload", names(workloads), names(present(w.Workload(namespace, name))))
	credentials := of(d, func(c *model.Credential) bool { return c.Namespace == namespace && c.Name == name })
	requireSame(t, "credential", names(credentials), names(present(w.Credential(namespace, name))))
	full := namespace + "/" + name
	requireList(t, "routes at "+full, of(d, func(v *model.VirtualService) bool { return slices.Contains(v.Gateways, full) }), w.VirtualServicesAt(full))
}

func present[T any](o *T) []*T {
	if o == nil {
		return nil
	}
	return []*T{o}
}

// requireDelta checks that a delta is the difference of what there was and what there is.
func requireDelta(t *rapid.T, before, now dumbSnapshot, d *Delta) {
	requirePairs(t, before, now, d.Services)
	requirePairs(t, before, now, d.VirtualServices)
	requirePairs(t, before, now, d.DestinationRules)
	requirePairs(t, before, now, d.Gateways)
	requirePairs(t, before, now, d.Sidecars)
	requirePairs(t, before, now, d.AuthorizationPolicies)
	requirePairs(t, before, now, d.PeerAuthentications)
	requirePairs(t, before, now, d.Credentials)
	requirePairs(t, before, now, d.Workloads)
	requirePairs(t, before, now, d.Nodes)
	requirePairs(t, before, now, d.WorkloadEntries)
	was, is := before.mesh(), now.mesh()
	require.Equal(t, model.Fingerprint(&was) != model.Fingerprint(&is), d.Mesh)
	requireEndpointChanges(t, before, now, d)
	requireAccountsChanges(t, before, now, d)
}

func requirePairs[T any](t *rapid.T, before, now dumbSnapshot, pairs []Pair[T]) {
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

func requireEndpointChanges(t *rapid.T, before, now dumbSnapshot, d *Delta) {
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

func requireAccountsChanges(t *rapid.T, before, now dumbSnapshot, d *Delta) {
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
		require.True(t, slices.Equal(w.was, got[id].was) && slices.Equal(w.is, got[id].is), "%v: want %v, got %v", id, w, got[id])
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
