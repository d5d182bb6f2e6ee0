package keysets

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

func gauged(t *testing.T, w *world) int {
	t.Helper()
	var m dto.Metric
	require.NoError(t, w.metrics.LeftOut.Write(&m))
	return int(m.GetGauge().GetValue())
}

// numbered returns URIs, whose sets have as many bytes.
func (w *world) numbered(n, bytes int, format string) []string {
	var uris []string
	for i := range n {
		uri := fmt.Sprintf(format, i)
		w.set(uri, strings.Repeat("k", bytes))
		uris = append(uris, uri)
	}
	return uris
}

// byURI returns the entries that have keys, and the errors of all.
func byURI(has []jwks.Entry) (keys, told map[string]string) {
	keys, told = map[string]string{}, map[string]string{}
	for _, e := range has {
		if e.Keys != "" {
			keys[e.URI] = e.Keys
		}
		if e.Error != "" {
			told[e.URI] = e.Error
		}
	}
	return keys, told
}

func requireFits(t *testing.T, has []jwks.Entry) {
	t.Helper()
	size := 0
	for name, text := range jwks.Encode(has) {
		size += len(name) + len(text)
	}
	require.Less(t, size, 1<<20, "a ConfigMap may have 1 MiB")
}

// A namespace names 15 sets of 64 KiB, whose addresses sort before all others. It gets its share,
// is told about the rest, and nobody else loses keys or the chance to get some.
func TestLargeSetsOfOneNamespacePushNoneOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		inForce := w.numbered(20, 2<<10, "https://issuer.example/%d")
		w.wantToo("shop", inForce...)
		w.after(time.Second)
		w.wantToo("evil", w.numbered(15, jwks.MaxBytes, "http://a.evil.example/%d")...)
		w.after(time.Minute)
		w.wantToo("late", w.numbered(10, 2<<10, "https://late.example/%d")...)
		has, _ := w.after(time.Hour)
		keys, told := byURI(has)
		requireFits(t, has)
		for _, uri := range inForce {
			require.Contains(t, keys, uri)
		}
		require.Contains(t, keys, "https://late.example/9")
		require.Len(t, keys, 20+10+2, "a quarter of the free room has place for 64 KiB twice")
		require.Len(t, told, 13)
		for uri, message := range told {
			require.True(t, strings.HasPrefix(uri, "http://a.evil.example/"), uri)
			require.Contains(t, message, "namespace evil have no room")
		}
		require.Equal(t, 13, gauged(t, w))
	})
}

func TestManySetsOfOneNamespaceLeavePlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		w.wantToo("evil", w.numbered(3*maxSets, 10, "http://a.evil.example/%d")...)
		w.after(time.Minute)
		w.wantToo("shop", w.numbered(5, 10, "https://issuer.example/%d")...)
		w.wantToo("istio-system", w.numbered(200, 10, "https://root.example/%d")...)
		has, calls := w.after(time.Minute)
		keys, told := byURI(has)
		requireFits(t, has)
		require.Len(t, keys, maxSets/shareOf+5+200)
		require.Len(t, calls, maxSets/shareOf+5+200, "what has no place is not fetched")
		require.NotEmpty(t, told)
		for _, message := range told {
			require.Contains(t, message, "namespace evil have no place")
		}
		require.Equal(t, 3*maxSets-maxSets/shareOf, gauged(t, w))
	})
}

// Keys in force stay when newer ones have no room, and it is said.
func TestSetThatOutgrowsItsShareKeepsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		grown := w.numbered(15, 100, "http://a.evil.example/%d")
		w.wantToo("evil", grown...)
		w.wantToo("shop", w.numbered(1, 100, "https://issuer.example/%d")...)
		w.after(time.Second)
		w.numbered(15, jwks.MaxBytes, "http://a.evil.example/%d")
		has, _ := w.after(time.Hour)
		keys, told := byURI(has)
		require.Len(t, keys, 16)
		require.Len(t, told, 12)
		for uri := range told {
			require.Len(t, keys[uri], 100)
		}
		w.numbered(15, 90, "http://a.evil.example/%d")
		has, _ = w.after(time.Hour)
		_, told = byURI(has)
		require.Empty(t, told)
		require.Zero(t, gauged(t, w))
	})
}

// A set that several namespaces name takes the share of one that has room.
func TestSharedSetNeedsOneShareAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.run()()
		w.wantToo("evil", w.numbered(200, 10, "http://a.evil.example/%d")...)
		w.wantToo("evil", w.numbered(1, 10, "https://shared.example/%d")...)
		has, _ := w.after(time.Minute)
		keys, _ := byURI(has)
		require.NotContains(t, keys, "https://shared.example/0")
		shared := Demand{URI: "https://shared.example/0", Wanted: true, Names: []Naming{{Namespace: "shop", More: 1}}}
		w.keeper.Update([]Demand{shared})
		has, _ = w.after(time.Minute)
		keys, _ = byURI(has)
		require.Contains(t, keys, "https://shared.example/0")
		shared.Names[0].More = -1
		w.keeper.Update([]Demand{shared})
		has, _ = w.after(time.Minute)
		keys, _ = byURI(has)
		require.Contains(t, keys, "https://shared.example/0", "what is in force stays")
	})
}

// Another replica takes over what is in force, whatever the shares are.
func TestReplicaTakesOverSetsBeyondTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mu.Lock()
		for i := range 300 {
			w.has = append(w.has, jwks.Entry{URI: fmt.Sprintf("https://issuer.example/%03d", i), Keys: "keys"})
		}
		w.mu.Unlock()
		w.wantToo("shop", w.numbered(300, 10, "https://issuer.example/%03d")...)
		stop := w.run()
		has, _ := w.after(time.Minute)
		keys, _ := byURI(has)
		require.Len(t, keys, 300)
		stop()
		defer w.run()()
		has, _ = w.after(time.Hour)
		keys, _ = byURI(has)
		require.Len(t, keys, 300)
	})
}

// Addresses of one namespace that do not answer leave places for those of others.
func TestAddressesThatHangLeavePlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hangs = true
		for i := range 100 {
			w.wantToo("evil", fmt.Sprint("http://a.evil.example/", i))
		}
		defer w.run()()
		_, calls := w.after(time.Second)
		require.Len(t, calls, maxOfPayer)
		w.mu.Lock()
		w.hangs = false
		w.mu.Unlock()
		w.wantToo("shop", w.numbered(1, 10, "https://issuer.example/%d")...)
		has, _ := w.after(time.Second)
		keys, _ := byURI(has)
		require.Contains(t, keys, "https://issuer.example/0")
	})
}
