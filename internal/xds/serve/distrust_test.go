package serve

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func distrusting(t resource.Type, all ...string) (n names) {
	n[t] = map[string]struct{}{}
	for _, name := range all {
		n[t][name] = struct{}{}
	}
	return n
}

// at is the key of a proxy without an identity.
func at(peer, node string) distrustKey {
	return distrustKey{owner: owner{peer: netip.MustParseAddr(peer)}, node: node}
}

func TestDistrustLastsToTheNextStream(t *testing.T) {
	var d distrustStore
	now := time.Unix(1000, 0)
	p := at("10.0.0.1", "p")
	require.Zero(t, d.remember(p, names{}, now))
	require.Empty(t, d.known)
	require.Zero(t, d.remember(p, distrusting(resource.Cluster, "b"), now))
	require.Zero(t, d.remember(p, distrusting(resource.Cluster, "a"), now), "the newest counts")
	require.Equal(t, names{}, d.take(at("10.0.0.2", "p"), now), "another client may claim the same node id")
	require.Equal(t, distrusting(resource.Cluster, "a"), d.take(p, now))
	require.Equal(t, names{}, d.take(p, now))
	require.Zero(t, d.oldest.Len()+d.bytes+len(d.owners))
}

func TestDistrustIsKeyedByProvenPod(t *testing.T) {
	bound := Identity{Namespace: "default", ServiceAccount: "web", Pod: "web-0"}
	a := distrustKeyOf(ownerOf(bound, nil), &Node{ID: "a"})
	require.Equal(t, a, distrustKeyOf(ownerOf(bound, nil), &Node{ID: "b"}), "a Pod has one entry, whatever it claims")
	bound.Pod = ""
	require.NotEqual(t, distrustKeyOf(ownerOf(bound, nil), &Node{ID: "a"}),
		distrustKeyOf(ownerOf(bound, nil), &Node{ID: "b"}))
}

func TestDistrustExpiresAfter10Minutes(t *testing.T) {
	var d distrustStore
	now := time.Unix(1000, 0)
	d.remember(at("10.0.0.1", "p"), distrusting(resource.Cluster, "a"), now)
	d.remember(at("10.0.0.2", "q"), distrusting(resource.Cluster, "a"), now.Add(time.Second))
	now = now.Add(maxDistrustAge + time.Second)
	require.Equal(t, names{}, d.take(at("10.0.0.1", "p"), now))
	require.NotEqual(t, names{}, d.take(at("10.0.0.2", "q"), now))
}

func TestDistrustIsBoundedInNumber(t *testing.T) {
	var d distrustStore
	now := time.Unix(1000, 0)
	key := func(i int) distrustKey { return at(fmt.Sprintf("10.0.%d.%d", i>>8, i&255), "p") }
	dropped := 0
	for i := range maxDistrusted + 2 {
		dropped += d.remember(key(i), distrusting(resource.Route, "80"), now)
	}
	require.Equal(t, 2, dropped)
	require.Len(t, d.known, maxDistrusted)
	require.Equal(t, maxDistrusted, d.oldest.Len())
	require.Equal(t, names{}, d.take(key(1), now))
	require.NotEqual(t, names{}, d.take(key(2), now))
}

func TestDistrustOfOneOwnerDropsNobodyElses(t *testing.T) {
	var d distrustStore
	now := time.Unix(1000, 0)
	d.remember(at("10.0.0.1", "p"), distrusting(resource.Cluster, "a"), now)
	for i := range 2 * maxDistrusted {
		d.remember(at("10.0.0.9", fmt.Sprint(i)), distrusting(resource.Cluster, "a"), now)
	}
	require.Len(t, d.known, 1+maxDistrusted/distrustOwnerPart)
	for i := range 20 {
		large := strings.Repeat("x", maxEntryBytes/2)
		d.remember(at("10.0.0.8", fmt.Sprint(i)), distrusting(resource.Cluster, large), now)
	}
	require.LessOrEqual(t, d.owners[at("10.0.0.8", "").owner].bytes, maxDistrustBytes/distrustOwnerPart)
	require.NotEqual(t, names{}, d.take(at("10.0.0.1", "p"), now))
}

func TestDistrustIsBoundedInBytes(t *testing.T) {
	var d distrustStore
	now := time.Unix(1000, 0)
	p := at("10.0.0.1", "p")
	large := strings.Repeat("x", maxEntryBytes/2)
	require.Equal(t, 2, d.remember(p, distrusting(resource.Cluster, large+"1", large+"2", large+"3"), now))
	require.LessOrEqual(t, d.bytes, maxEntryBytes)
	for i := range 40 {
		d.remember(at(fmt.Sprintf("10.0.1.%d", i), "p"), distrusting(resource.Cluster, large), now)
	}
	require.LessOrEqual(t, d.bytes, maxDistrustBytes)
	require.Equal(t, names{}, d.take(p, now), "the oldest went")
}
