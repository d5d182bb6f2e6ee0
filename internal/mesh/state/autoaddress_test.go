package state

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// smallRange has five places, so that hosts are in each other's way.
func smallRange() AutoRange {
	r, err := NewAutoRange(netip.MustParsePrefix("240.240.0.0/29"), netip.MustParsePrefix("2001:2::/48"))
	if err != nil {
		panic(err)
	}
	return r
}

// naiveAddresses gives each host, in their order, the first place that it tries and that is free.
func naiveAddresses(d naiveSnapshot, from AutoRange) map[model.Host][]string {
	given, taken := map[model.Host][]string{}, map[uint32]bool{}
	eligible := of(d, func(svc *model.Service) bool { return svc.AutoAddress })
	slices.SortStableFunc(eligible, inTotalOrder)
	for _, svc := range eligible {
		if _, known := given[svc.Host]; known {
			continue
		}
		given[svc.Host] = nil
		for _, place := range from.probes(string(svc.Host)) {
			if !taken[place] {
				taken[place], given[svc.Host] = true, from.addresses(place)
				break
			}
		}
	}
	return given
}

// requireAutoAddresses compares the addresses of all services, and the services at each address.
func requireAutoAddresses(t *rapid.T, d naiveSnapshot, s *Snapshot) {
	given := naiveAddresses(d, s.auto.from)
	require.Equal(t, len(given), s.auto.byHost.len())
	for _, svc := range of(d, all[model.Service]) {
		var want []string
		if svc.AutoAddress {
			want = given[svc.Host]
		}
		requireSame(t, "addresses of "+string(svc.Host), want, s.AutoAddresses(svc))
	}
	for _, port := range []uint16{80, 3306} {
		for host, addresses := range given {
			at := having(d, func(svc *model.Service, p model.ServicePort) bool {
				return svc.Host == host && svc.AutoAddress && p.Port == port && p.Protocol != model.UDP
			})
			for _, address := range addresses {
				requireList(t, "services at "+address, at, s.ServicesAtAuto(address, port))
			}
		}
	}
}

// requireAddressChanges checks that the delta has the hosts with other addresses than before.
func requireAddressChanges(t *rapid.T, before, now naiveSnapshot, d *Delta) {
	was, is := naiveAddresses(before, d.From.auto.from), naiveAddresses(now, d.To.auto.from)
	want := []model.Host{}
	for host := range was {
		if !slices.Equal(was[host], is[host]) {
			want = append(want, host)
		}
	}
	for host := range is {
		if _, known := was[host]; !known && is[host] != nil {
			want = append(want, host)
		}
	}
	slices.Sort(want)
	requireSame(t, "changed addresses", want, append([]model.Host{}, d.AutoAddresses...))
}

// Whichever hosts come and go in which order, each has the first place that no older host has.
func TestAddressesDependOnWhatThereIsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWriter()
		w.AllocateFrom(smallRange())
		present := map[source.Key]*model.Service{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			var updates []Update
			for range rapid.IntRange(1, 3).Draw(t, "in one batch") {
				n := rapid.IntRange(0, 11).Draw(t, "entry")
				key := source.Key{Kind: kinds.ServiceEntry, Namespace: "default", Name: fmt.Sprint("e", n)}
				if rapid.Bool().Draw(t, "goes") {
					delete(present, key)
					updates = append(updates, Update{Key: key})
					continue
				}
				svc := &model.Service{
					Meta: model.Meta{
						Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
						Created: rapid.Int64Range(0, 2).Draw(t, "created"),
					},
					Host:        model.Host(fmt.Sprintf("h%d.test", n%9)),
					AutoAddress: rapid.IntRange(0, 4).Draw(t, "no address") > 0,
				}
				present[key] = svc
				updates = append(updates, Update{Key: key, Objects: []model.Object{svc}})
			}
			w.Apply(updates)
			requireSamePlaces(t, present, w.Snapshot())
		}
	})
}

func requireSamePlaces(t *rapid.T, present map[source.Key]*model.Service, s *Snapshot) {
	anew := NewWriter()
	anew.AllocateFrom(smallRange())
	var list []*model.Service
	for key, svc := range present {
		list = append(list, svc)
		anew.Apply([]Update{{Key: key, Objects: []model.Object{svc}}})
	}
	taken := map[string]model.Host{}
	for _, svc := range list {
		got := s.AutoAddresses(svc)
		requireSame(t, "addresses of "+string(svc.Host), anew.Snapshot().AutoAddresses(svc), got)
		for _, a := range got {
			if other, held := taken[a]; held {
				require.Equal(t, other, svc.Host, a)
			}
			taken[a] = svc.Host
		}
	}
	require.Equal(t, anew.Snapshot().auto.passed.len(), s.auto.passed.len())
	require.Equal(t, anew.Snapshot().auto.byPlace.len(), s.auto.byPlace.len())
}

func TestRangesHaveAddressesOfBothFamilies(t *testing.T) {
	r := DefaultAutoRange()
	require.Equal(t, uint32(65521), r.places)
	require.Equal(t, []string{"240.240.0.1", "2001:2::1"}, r.addresses(1))
	require.Equal(t, []string{"240.240.255.241", "2001:2::fff1"}, r.addresses(r.places))
	for place, addresses := range map[uint32][]string{
		1: {"240.240.0.1", "2001:2::1"}, 258: {"240.240.1.2", "2001:2::102"},
		0: {
			"240.240.0.0", "240.240.255.242", "240.241.0.1", "10.0.0.1",
			"2001:2::", "2001:2:0:0:1::1", "fd00::1", "x", "",
		},
	} {
		for _, a := range addresses {
			require.Equal(t, place, r.place(a), a)
		}
	}
	small := smallRange()
	require.Equal(t, uint32(5), small.places)
	list := small.probes("a.test")
	slices.Sort(list)
	require.Equal(t, []uint32{1, 2, 3, 4, 5}, list)
	require.Len(t, r.probes("a.test"), maxProbes)
}

func TestRangesThatCannotBeAreErrors(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")
	for _, wrong := range [][2]netip.Prefix{
		{netip.MustParsePrefix("10.0.0.0/30"), v6}, {v4, netip.MustParsePrefix("fd00::/126")},
		{v6, v4}, {v4, v4}, {{}, v6},
	} {
		_, err := NewAutoRange(wrong[0], wrong[1])
		require.ErrorContains(t, err, "want a network")
	}
}
