package resource

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func drawEdits(t *rapid.T, label string) []Edit {
	names := rapid.SliceOfN(rapid.IntRange(0, 60), 0, 40).Draw(t, label)
	edits := make([]Edit, len(names))
	for i, n := range names {
		edits[i].Name = fmt.Sprint("r", n)
		if body := rapid.IntRange(0, 3).Draw(t, "body"); body > 0 {
			edits[i].Resource = New(edits[i].Name, fmt.Append(nil, "body", body))
		}
	}
	return edits
}

func applyToMap(m map[string]*Resource, edits []Edit) {
	for _, e := range edits {
		if e.Resource == nil {
			delete(m, e.Name)
			continue
		}
		m[e.Name] = e.Resource
	}
}

func versions(m map[string]*Resource) map[string]Version {
	out := map[string]Version{}
	for n, r := range m {
		out[n] = r.Version()
	}
	return out
}

func contents(s *Set) map[string]Version {
	out := map[string]Version{}
	for r := range s.All() {
		out[r.Name()] = r.Version()
	}
	return out
}

// A set holds what a map would after the same edits, whatever their order made of it: equal
// content, equal root.
func TestSetIsAMapWithoutHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := NewStore()
		set, want := Empty(), map[string]*Resource{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			edits := drawEdits(t, "edits")
			before := set
			set = st.Apply(set, edits)
			applyToMap(want, edits)
			require.Equal(t, versions(want), contents(set))
			require.Equal(t, len(want), set.Len())
			require.Equal(t, before.Equal(set), before.Identity() == set.Identity())
			if before.Equal(set) {
				require.Same(t, before, set)
			}
		}
		size := 0
		for n, r := range want {
			size += r.Size()
			require.Equal(t, r.Version(), set.Get(n).Version())
		}
		require.Equal(t, size, set.Size())
		require.Nil(t, set.Get("never"))
		fresh := st.Build(slices.Collect(maps.Values(want))...)
		require.Equal(t, set.Root(), fresh.Root())
		require.Same(t, set.root, fresh.root, "nodes of equal content are one")
	})
}

func TestDiffIsTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := NewStore()
		a := st.Apply(Empty(), drawEdits(t, "a"))
		b := st.Apply(a, drawEdits(t, "b"))
		got := contents(a)
		Diff(a, b, func(old, new *Resource) {
			switch {
			case old == nil:
				require.NotContains(t, got, new.Name())
			case new == nil:
				require.Equal(t, old.Version(), got[old.Name()])
			default:
				require.Equal(t, old.Name(), new.Name())
				require.NotEqual(t, old.Version(), new.Version())
			}
			if new == nil {
				delete(got, old.Name())
				return
			}
			got[new.Name()] = new.Version()
		})
		require.Equal(t, contents(b), got)
	})
}

// One edit of a large set makes as many nodes as the trie is deep, and the difference visits no
// more.
func TestAnEditCostsTheDepth(t *testing.T) {
	st := NewStore()
	var rs []*Resource
	for i := range 10_000 {
		rs = append(rs, New(fmt.Sprint("resource-", i), []byte("v1")))
	}
	set := st.Build(rs...)
	before := st.Nodes()
	next := st.Apply(set, []Edit{{Name: "resource-77", Resource: New("resource-77", []byte("v2"))}})
	require.LessOrEqual(t, st.Nodes()-before, 8)
	calls := 0
	Diff(set, next, func(old, new *Resource) { calls++ })
	require.Equal(t, 1, calls)
}

func encoded(t require.TestingT, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return b
}

func TestRouteTableIsPutTogetherFromItsMembers(t *testing.T) {
	st := NewStore()
	vhosts := st.Build(
		New("a:80", encoded(t, &routev3.VirtualHost{Domains: []string{"a"}})),
		New("b:80", encoded(t, &routev3.VirtualHost{Domains: []string{"b", "b:80"}})),
	)
	r := NewRouteTable("80", encoded(t, &routev3.RouteConfiguration{Name: "80"}), vhosts)
	require.Len(t, r.Body(), r.Size())
	got := &routev3.RouteConfiguration{}
	require.NoError(t, proto.Unmarshal(r.Body(), got))
	require.Equal(t, "80", got.GetName())
	names := map[string]int{}
	for _, v := range got.GetVirtualHosts() {
		names[v.GetName()] = len(v.GetDomains())
	}
	require.Equal(t, map[string]int{"a:80": 1, "b:80": 2}, names)
}

func TestAssignmentIsPutTogetherFromItsGroups(t *testing.T) {
	st := NewStore()
	members := func(addresses ...string) *Set {
		var rs []*Resource
		for _, a := range addresses {
			rs = append(rs, New(a, encoded(t, &endpointv3.LbEndpoint{HealthStatus: corev3.HealthStatus_DRAINING})))
		}
		return st.Build(rs...)
	}
	group := func(zone string, set *Set) Group {
		return Group{
			Head:    encoded(t, &endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Zone: zone}}),
			Members: set,
		}
	}
	r := NewAssignment("c", encoded(t, &endpointv3.ClusterLoadAssignment{ClusterName: "c"}),
		[]Group{group("z1", members("1", "2")), group("z2", members("3"))})
	require.Len(t, r.Body(), r.Size())
	got := &endpointv3.ClusterLoadAssignment{}
	require.NoError(t, proto.Unmarshal(r.Body(), got))
	require.Equal(t, "c", got.GetClusterName())
	require.Len(t, got.GetEndpoints(), 2)
	require.Len(t, got.GetEndpoints()[0].GetLbEndpoints(), 2)
	require.Equal(t, "z2", got.GetEndpoints()[1].GetLocality().GetZone())
}

func address(a string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: a}}}
}

// templated is a listener with placeholders.
func templated(t *testing.T, l *listenerv3.Listener) *Resource {
	return NewWith(l.GetName(), encoded(t, l), Traits{Placeholders: true})
}

func TestOwnAddressesAreFilledIn(t *testing.T) {
	r := templated(t, &listenerv3.Listener{Name: "l", Address: address(model.OwnPod)})
	one, two := Overlay{Pod: "127.1.0.1"}, Overlay{Pod: "127.1.0.2"}
	got := &listenerv3.Listener{}
	require.NoError(t, proto.Unmarshal(one.Body(Listener, r), got))
	require.Equal(t, "127.1.0.1", got.GetAddress().GetSocketAddress().GetAddress())
	require.NotEqual(t, one.Version(r), two.Version(r))
	require.NotEqual(t, r.Version(), one.Version(r))
}

// TestAGatewayListensEverywhere but where its address is one of many that pods of a local mesh have
// in common.
func TestAGatewayListensEverywhere(t *testing.T) {
	r := templated(t, &listenerv3.Listener{
		Name:                "l",
		Address:             address(model.OwnAny4),
		AdditionalAddresses: []*listenerv3.AdditionalAddress{{Address: address(model.OwnAny6)}},
	})
	for pod, want := range map[string][]string{
		"10.1.0.1":  {"0.0.0.0", "::"},
		"fd00::1":   {"0.0.0.0", "::"},
		"":          {"0.0.0.0", "::"},
		"127.1.0.1": {"127.1.0.1"},
		"::1":       {"::1"},
	} {
		got := &listenerv3.Listener{}
		require.NoError(t, proto.Unmarshal(Overlay{Pod: pod}.Body(Listener, r), got))
		binds := []string{got.GetAddress().GetSocketAddress().GetAddress()}
		for _, more := range got.GetAdditionalAddresses() {
			binds = append(binds, more.GetAddress().GetSocketAddress().GetAddress())
		}
		require.Equal(t, want, binds, pod)
	}
}

func TestVersionsAreReadAsWritten(t *testing.T) {
	v := New("n", []byte("body")).Version()
	got, ok := ParseVersion(v.String())
	require.True(t, ok)
	require.Equal(t, v, got)
	_, ok = ParseVersion("2026-11-21T10:00:00Z/7")
	require.False(t, ok)
}
