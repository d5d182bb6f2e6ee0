package xdsproxy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// testCache is a cache, and the client that a test plays.
type testCache struct {
	*cache
	t rapid.TB
}

func newTestCache(t rapid.TB, file string) testCache {
	c, err := openCache(CacheOptions{File: file, Node: nodeID, MaxBytes: 1 << 20}, time.Now)
	require.NoError(t, err)
	return testCache{c, t}
}

func encoded(t rapid.TB, m proto.Message) *wire.Message {
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return wire.Bytes(b)
}

func (c testCache) ask(q *discoveryv3.DeltaDiscoveryRequest) {
	m := encoded(c.t, q)
	read, err := wire.Delta().ReadRequest(m)
	require.NoError(c.t, err)
	require.NoError(c.t, c.asked(wire.Delta(), read, m))
}

// pass has the client accept a response, or refuse it.
func (c testCache) pass(r *discoveryv3.DeltaDiscoveryResponse, isTaken bool) {
	m := encoded(c.t, r)
	read, err := readResponse(wire.Delta(), m)
	require.NoError(c.t, err)
	require.NoError(c.t, c.passed(wire.Delta(), read, m))
	q := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	if !isTaken {
		q.ErrorDetail = &status.Status{Message: "no"}
	}
	c.ask(q)
}

// content is what the cache has of a type: bodies by name.
func (c testCache) content(typeURL string) map[string]string {
	all := map[string]string{}
	require.NoError(c.t, c.each(typeURL, func(string) bool { return true }, func(r record) {
		i, err := readItem(r.body, true)
		require.NoError(c.t, err)
		require.Equal(c.t, r.name, i.name)
		all[r.name] = i.version + " " + string(bytesOf(i.body))
	}))
	return all
}

// TestCacheIsWhatTheClientHas compares the cache with a map, in random lives with restarts, torn
// writes and compaction.
func TestCacheIsWhatTheClientHas(t *testing.T) {
	dir := t.TempDir()
	lives := 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		file := filepath.Join(dir, fmt.Sprint(lives))
		c := newTestCache(t, file)
		want := map[string]map[string]string{typeurl.Cluster: {}, typeurl.Endpoint: {}}
		types := slices.Sorted(maps.Keys(want))
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		number := 0
		t.Repeat(map[string]func(*rapid.T){
			"response": func(t *rapid.T) {
				number++
				typeURL := rapid.SampledFrom(types).Draw(t, "type")
				r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: fmt.Sprint(number)}
				isTaken := rapid.Bool().Draw(t, "taken")
				for _, name := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID[string]).Draw(t, "names") {
					body := &clusterv3.Cluster{Name: name, AltStatName: strings.Repeat("x", number)}
					raw, err := proto.Marshal(body)
					require.NoError(t, err)
					if rapid.Bool().Draw(t, "removed") {
						r.RemovedResources = append(r.RemovedResources, name)
						if isTaken {
							delete(want[typeURL], name)
						}
						continue
					}
					one := &discoveryv3.Resource{Name: name, Version: r.GetNonce(), Resource: packedRaw(typeURL, raw)}
					r.Resources = append(r.Resources, one)
					if isTaken {
						want[typeURL][name] = r.GetNonce() + " " + string(raw)
					}
				}
				c.pass(r, isTaken)
			},
			"unsubscribe": func(t *rapid.T) {
				name := names.Draw(t, "name")
				c.ask(&discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: typeurl.Endpoint, ResourceNamesUnsubscribe: []string{name},
				})
				delete(want[typeurl.Endpoint], name)
			},
			"compact": func(t *rapid.T) { require.NoError(t, c.compact()) },
			"restart of the agent": func(t *rapid.T) {
				require.NoError(t, c.close())
				if rapid.Bool().Draw(t, "torn") {
					appendTo(t, file, rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "garbage"))
				}
				c = newTestCache(t, file)
				// Envoy goes on, and says what it has
				for typeURL, has := range want {
					reported := map[string]string{}
					for name := range has {
						reported[name] = ""
					}
					c.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, InitialResourceVersions: reported})
				}
			},
			"": func(t *rapid.T) {
				for typeURL, has := range want {
					require.Equal(t, has, c.content(typeURL))
				}
			},
		})
		require.NoError(t, c.close())
	})
}

func appendTo(t rapid.TB, file string, b []byte) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestFirstClustersReplaceThoseOfAnEarlierEnvoy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	c := newTestCache(t, file)
	c.pass(respond(t, typeurl.Cluster, "1", "old", "reported"), true)
	c.pass(respond(t, typeurl.Endpoint, "2", "old"), true)
	c.begin()
	c.ask(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeurl.Cluster, InitialResourceVersions: map[string]string{"reported": "v-1"},
	})
	c.pass(respond(t, typeurl.Cluster, "1", "new"), true)
	require.NoError(t, c.close())
	c = newTestCache(t, file)
	require.ElementsMatch(t, []string{"reported", "new"}, slices.Collect(maps.Keys(c.content(typeurl.Cluster))))
	require.Len(t, c.content(typeurl.Endpoint), 1, "endpoints are asked for by name, later")
	require.NoError(t, c.close())
}

func TestWhatNobodyAsksForGoesWithCompaction(t *testing.T) {
	c := newTestCache(t, filepath.Join(t.TempDir(), "cache"))
	const collections = "xdstp:///envoy.config.endpoint.v3.LbEndpoint/"
	c.pass(respond(t, typeurl.Endpoint, "1", "old", "asked"), true)
	c.pass(respond(t, typeurl.Route, "2", "80"), true)
	c.pass(respond(t, typeurl.VirtualHost, "3", "80/a", "81/a"), true)
	c.pass(respond(t, typeurl.LbEndpoint, "4", collections+"a/1", collections+"b/1"), true)
	c.begin()
	c.ask(subscribe(typeurl.Endpoint, "asked"))
	c.ask(subscribe(typeurl.Route, "80"))
	c.ask(subscribe(typeurl.LbEndpoint, collections+"a/*"))
	require.NoError(t, c.compact())
	require.Len(t, c.content(typeurl.Endpoint), 2, "Envoy has not asked for all yet")
	c.now = func() time.Time { return c.began.Add(settled) }
	require.NoError(t, c.compact())
	for typeURL, name := range map[string]string{
		typeurl.Endpoint: "asked", typeurl.Route: "80",
		typeurl.VirtualHost: "80/a", typeurl.LbEndpoint: collections + "a/1",
	} {
		require.Equal(t, []string{name}, slices.Collect(maps.Keys(c.content(typeURL))))
	}
	require.NoError(t, c.close())
}

func TestLogIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cache")
	c := newTestCache(t, file)
	large := strings.Repeat("x", 100<<10)
	for i := range 100 {
		c.pass(respond(t, typeurl.Cluster, fmt.Sprint(i), large), true)
		require.LessOrEqual(t, c.log.size, 2*c.live+compactSlack+int64(len(large)*4))
	}
	q := respond(t, typeurl.Cluster, "101", large, strings.Repeat("y", 1<<20))
	m := encoded(t, q)
	read, err := readResponse(wire.Delta(), m)
	require.NoError(t, err)
	require.ErrorContains(t, c.passed(wire.Delta(), read, m), "more than 1048576 bytes")
	require.NoFileExists(t, file, "an old configuration is worse than none")
	require.True(t, c.isEmpty())
	c.begin()
	c.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Cluster, ResponseNonce: "101"})
}
