package xdsproxy

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// FuzzMessages reads any bytes as requests and responses, in one buffer and in many. What protobuf
// can read is read alike.
func FuzzMessages(f *testing.F) {
	for _, m := range []proto.Message{
		respond(f, typeurl.Cluster, "1", "a", "b"),
		&discoveryv3.DeltaDiscoveryRequest{
			Node: node(), TypeUrl: typeurl.Cluster, ResponseNonce: "1",
			ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: map[string]string{"a": "1"},
		},
		&discoveryv3.DiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster, VersionInfo: "1"},
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b, 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		whole, split := wire.Bytes(b), &wire.Message{}
		for size = max(size, 1); len(b) > size; b = b[size:] {
			split.Data = append(split.Data, mem.SliceBuffer(b[:size]))
		}
		split.Data = append(split.Data, mem.SliceBuffer(b))
		for _, v := range []*wire.Variant{wire.Delta(), wire.StateOfTheWorld()} {
			q, err := v.ReadRequest(whole)
			again, errAgain := v.ReadRequest(split)
			require.Equal(t, q, again)
			require.Equal(t, err, errAgain)
			require.Equal(t, visited(v, whole), visited(v, split))
			require.Equal(t, resourcesIn(v, whole), resourcesIn(v, split))
		}
		var m discoveryv3.DeltaDiscoveryRequest
		q, err := wire.Delta().ReadRequest(whole)
		if err != nil || proto.Unmarshal(whole.Data.Materialize(), &m) != nil {
			return
		}
		require.Equal(t, wire.Request{
			TypeURL: m.GetTypeUrl(), Ack: m.GetResponseNonce(),
			IsRefusal: m.GetErrorDetail() != nil, Reason: m.GetErrorDetail().GetMessage(),
			Reports: len(m.GetInitialResourceVersions()) > 0,
		}, q)
	})
}

func visited(v *wire.Variant, m *wire.Message) (all []string) {
	v.Visit(m, wire.Visitor{
		Asked:        func(name []byte) { all = append(all, "asked "+string(name)) },
		Unsubscribed: func(name []byte) { all = append(all, "unsubscribed "+string(name)) },
		Reported:     func(name []byte) { all = append(all, "reported "+string(name)) },
	})
	return all
}

func resourcesIn(v *wire.Variant, m *wire.Message) (all []string) {
	p, err := readResponse(v, m)
	if err != nil {
		return nil
	}
	_ = resourcesOf(v, m, p, func(i item) {
		all = append(all, i.name, i.version, nameIn(i.body), string(bytesOf(i.body)))
	}, func(name string) { all = append(all, "removed "+name) })
	return all
}

// FuzzLastConfiguration opens any file, and serves what is in it.
func FuzzLastConfiguration(f *testing.F) {
	file := filepath.Join(f.TempDir(), "cache")
	c := newTestCache(f, file)
	c.pass(respond(f, typeurl.Route, "1", "80"), true)
	c.pass(respond(f, typeurl.LbEndpoint, "2", "a/1"), true)
	require.NoError(f, c.close())
	content, err := os.ReadFile(file)
	require.NoError(f, err)
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "cache")
		require.NoError(t, os.WriteFile(file, content, 0o600))
		c, err := openCache(CacheOptions{File: file, Node: nodeID, MaxBytes: 1 << 20}, time.Now)
		require.NoError(t, err)
		for _, v := range []*wire.Variant{wire.Delta(), wire.StateOfTheWorld()} {
			o := newOffline(v, c)
			for _, typeURL := range []string{typeurl.Route, typeurl.LbEndpoint} {
				_, err := o.respond(typeURL, func(name string) bool { return true })
				require.NoError(t, err)
			}
		}
		require.NoError(t, c.close())
	})
}
