package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// securedBySets is a Gateway with listeners of HTTPS on one port: one for "*", one for "*.test",
// and one of a ListenerSet for each of n hosts.
func securedBySets(n int) []Update {
	ok := model.Condition{Status: true, Reason: "Accepted"}
	listener := func(name string, host model.Host) model.Listener {
		return model.Listener{
			Name: name, Port: 443, Protocol: model.HTTP, Host: host, Kinds: []kinds.Kind{kinds.HTTPRoute},
			From: model.NamespaceSelector{All: true}, Accepted: ok, ResolvedRefs: ok,
			TLS: &model.ServerTLS{Mode: model.ServerSimple},
		}
	}
	m := model.Meta{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "x"}
	all := []Update{{Key: m.Key(), Objects: []model.Object{&model.KubernetesGateway{
		Meta: m, Class: "istio", Accepted: ok, Sets: model.NamespaceSelector{All: true},
		Listeners: []model.Listener{listener("any", "*"), listener("test", "*.test")},
	}}}}
	for i := range n {
		set := model.Meta{Kind: kinds.ListenerSet, Namespace: "a", Name: fmt.Sprintf("s%05d", i)}
		all = append(all, Update{Key: set.Key(), Objects: []model.Object{&model.ListenerSet{
			Meta: set, Parent: model.ObjectName{Namespace: "a", Name: "x"},
			Listeners: []model.Listener{listener("https", model.Host(fmt.Sprintf("h%05d.test", i)))},
		}}})
	}
	return all
}

// misdirectedAt are the hosts that each listener answers with 421, by its own host.
func misdirectedAt(s *Snapshot) (by map[model.Host][]model.Host, total int) {
	by = map[model.Host][]model.Host{}
	for g := range s.Gateways() {
		sv := &g.Servers[0]
		by[sv.Hosts[0].Host] = sv.Misdirected
		total += len(sv.Misdirected)
	}
	return by, total
}

// A listener answers the hosts of the others with 421, each by its name while these are few.
func TestFewHostsOfAPortAreListedAtEachListener(t *testing.T) {
	s, _ := NewWriter().Apply(securedBySets(mostListedHosts - 2))
	by, total := misdirectedAt(s)
	require.Equal(t, mostListedHosts*(mostListedHosts-1), total)
	require.Contains(t, by["*"], model.Host("*.test"))
	require.Contains(t, by["h00007.test"], model.Host("*"))
	require.Contains(t, by["h00007.test"], model.Host("h00008.test"))
	require.NotContains(t, by["h00007.test"], model.Host("h00007.test"))
}

// With thousands of ListenerSets the lists of a port grow with the number of hosts, not with its
// square, and one more changes the wildcards that cover it alone.
func TestMisdirectedHostsOfAPortAreLinear(t *testing.T) {
	for _, n := range []int{500, 5000} {
		w := NewWriter()
		s, _ := w.Apply(securedBySets(n))
		by, total := misdirectedAt(s)
		require.Len(t, by["*"], n+1, "all others, since its own host covers them")
		require.Len(t, by["*.test"], n+1, "those that it covers, and all others by *")
		require.Equal(t, []model.Host{"*"}, by["h00007.test"])
		require.Equal(t, 3*n+2, total)

		_, d := w.Apply(securedBySets(n + 1)[n+1:])
		require.Len(t, d.Gateways, 3, "the new listener and the two that cover it")
	}
}
