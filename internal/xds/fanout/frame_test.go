package fanout_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

func TestFrameDecodesToTheResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := resource.Overlay{Pod: "127.1.2.3", App: "127.0.0.1", Outbound: "127.0.0.1"}
		r := session.Response{
			Type:    resource.Cluster,
			Nonce:   rapid.StringMatching(`[a-z0-9]{0,8}`).Draw(t, "nonce"),
			Version: rapid.StringMatching(`[a-z0-9]{0,16}`).Draw(t, "version"),
		}
		for i := range rapid.SampledFrom([]int{0, 1, 2, 6, 63, 64, 65}).Draw(t, "upserts") {
			size := rapid.SampledFrom([]int{0, 1, 100, 1000, 1100, 20000}).Draw(t, "size")
			r.Upserts = append(r.Upserts, cluster(t, fmt.Sprintf("c%d", i), size, rapid.Bool().Draw(t, "own")))
		}
		if rapid.Bool().Draw(t, "unknown") {
			r.Upserts, r.Unknown = nil, "type.googleapis.com/some.Thing"
		}

		got := &discoveryv3.DiscoveryResponse{}
		decode(t, fanout.Encode(session.StateOfTheWorld, r, own), got)
		diff(t, plainStateOfTheWorld(r, own), got)

		r.Removed = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z|]{0,9}`), 0, 4, rapid.ID).Draw(t, "removed")
		gotDelta := &discoveryv3.DeltaDiscoveryResponse{}
		decode(t, fanout.Encode(session.Delta, r, own), gotDelta)
		diff(t, plainDelta(r, own), gotDelta)
	})
}

func TestSharedFrameDecodesToTheResponse(t *testing.T) {
	store := resource.NewStore()
	from := store.Build(cluster(t, "a", 10, false), cluster(t, "b", 3000, false))
	to := store.Build(cluster(t, "b", 3001, false), cluster(t, "c", 10, false))
	change := resource.NewDiffer(1).Diff(resource.Cluster, from, to)
	r := session.Response{
		Type:    resource.Cluster,
		Nonce:   "7",
		Version: "v",
		Upserts: change.Upserts,
		Removed: change.Removed,
		Shared:  change,
	}
	got := &discoveryv3.DeltaDiscoveryResponse{}
	decode(t, fanout.Encode(session.Delta, r, resource.Overlay{}), got)
	diff(t, plainDelta(r, resource.Overlay{}), got)
}

// The resources of a step are encoded once, whoever makes it: all streams write the very same
// bytes.
func TestSharedFrameIsEncodedOnce(t *testing.T) {
	store := resource.NewStore()
	change := resource.NewDiffer(1).Diff(resource.Cluster, resource.Empty(), store.Build(cluster(t, "a", 10, false)))
	frames := make([]fanout.Frame, 3)
	for i := range frames {
		frames[i] = fanout.Encode(session.Delta, session.Response{
			Type: resource.Cluster, Nonce: fmt.Sprint(i), Upserts: change.Upserts, Shared: change,
		}, resource.Overlay{})
	}
	for _, f := range frames[1:] {
		require.Same(t, &frames[0].Parts[0][0], &f.Parts[0][0])
		require.NotEqual(t, frames[0].Parts[1], f.Parts[1], "the nonce is the stream's own")
	}
	encodings := 0
	change.Frame(func(*resource.Change) []byte { encodings++; return nil })
	require.Zero(t, encodings)
}

// Of many resources each is encoded once, whichever classes have it: here two that differ in one,
// which is their proxy's own.
func TestResourceOfManyClientsIsEncodedOnce(t *testing.T) {
	var many []*resource.Resource
	for i := range 100 {
		many = append(many, cluster(t, fmt.Sprint("c", i), 10, false))
	}
	var frames []fanout.Frame
	for _, other := range []string{"x", "y"} {
		r := session.Response{
			Type: resource.Cluster, Nonce: other, Upserts: append(slices.Clone(many), cluster(t, other, 10, true)),
		}
		frames = append(frames, fanout.Encode(session.Delta, r, resource.Overlay{Pod: "127.0.0.1"}))
	}
	for i := range many {
		require.Same(t, &frames[0].Parts[i][0], &frames[1].Parts[i][0])
	}
	encode := func(resource.Type, *resource.Resource) []byte { return []byte("again") }
	require.NotEqual(t, encode(0, nil), many[0].Framed(resource.Cluster, encode))
	require.Equal(t, encode(0, nil), many[0].Framed(resource.Endpoint, encode), "of the other type")
	require.NotEqual(t, encode(0, nil), many[0].Framed(resource.Cluster, encode))
}

// Members that a client gets for the first time come in parts, which those share who come later,
// but for the one that was changed.
func TestMembersForNewClientsAreEncodedOnce(t *testing.T) {
	store, differ := resource.NewStore(), resource.NewDiffer(4)
	var kept []*resource.Resource // as by sessions
	frameOf := func(changed string) fanout.Frame {
		members := []*resource.Resource{resource.New("changed", []byte(changed))}
		for i := range 1000 {
			members = append(members, resource.New(fmt.Sprint("e", i), fmt.Append(nil, "endpoint ", i)))
		}
		kept = append(
			kept,
			resource.NewAssignment("c", []byte("c"), []resource.Group{{Members: store.Build(members...)}}),
		)
		step := differ.Members(nil, kept[len(kept)-1])
		r := session.Response{Type: resource.LbEndpoint, Nonce: "m1", Version: "v", Upserts: step.Upserts, Shared: step}
		f := fanout.Encode(session.Delta, r, resource.Overlay{})
		got := &discoveryv3.DeltaDiscoveryResponse{}
		decode(t, f, got)
		diff(t, plainDelta(r, resource.Overlay{}), got)
		return f
	}
	before, after := frameOf("1"), frameOf("2")
	require.Less(t, len(before.Parts), 300)
	require.Len(t, after.Parts, len(before.Parts))
	others := 0
	for i := range before.Parts {
		if &before.Parts[i][0] != &after.Parts[i][0] {
			others++
		}
	}
	require.Equal(t, 2, others, "the changed one's, and the nonce")
	runtime.KeepAlive(kept)
}

// Of a change of members streams share all but the nonce, removals too, however many there are.
func TestChangesOfMembersAreOneSharedPart(t *testing.T) {
	store, differ := resource.NewStore(), resource.NewDiffer(4)
	of := func(from, to int) *resource.Resource {
		var members []*resource.Resource
		for i := from; i < to; i++ {
			members = append(members, resource.New(fmt.Sprint("e", i), fmt.Append(nil, "endpoint ", i)))
		}
		return resource.NewAssignment("c", []byte("c"), []resource.Group{{Members: store.Build(members...)}})
	}
	step := differ.Members(of(0, 300), of(100, 400))
	require.Len(t, step.Removed, 100)
	r := session.Response{
		Type:    resource.LbEndpoint,
		Nonce:   "m1",
		Version: "v",
		Upserts: step.Upserts,
		Removed: step.Removed,
		Shared:  step,
	}
	first := fanout.Encode(session.Delta, r, resource.Overlay{})
	second := fanout.Encode(session.Delta, r, resource.Overlay{})
	got := &discoveryv3.DeltaDiscoveryResponse{}
	decode(t, first, got)
	diff(t, plainDelta(r, resource.Overlay{}), got)
	require.Len(t, first.Parts, 2)
	require.Same(t, &first.Parts[0][0], &second.Parts[0][0])
}

func TestLargeBodiesAreNotCopied(t *testing.T) {
	big := cluster(t, "big", 5000, false)
	f := fanout.Encode(session.StateOfTheWorld, session.Response{
		Type: resource.Cluster, Upserts: []*resource.Resource{big},
	}, resource.Overlay{})
	shared := false
	for _, part := range f.Parts {
		shared = shared || &part[0] == &big.Body()[0]
	}
	require.True(t, shared)
}

func cluster(t interface{ Fatal(...any) }, name string, size int, own bool) *resource.Resource {
	m := &clusterv3.Cluster{Name: name, AltStatName: strings.Repeat("x", size)}
	if own {
		m.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{Address: model.OwnPod}}
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if own {
		return resource.NewWith(name, body, resource.Traits{Placeholders: true})
	}
	return resource.New(name, body)
}

func decode(t require.TestingT, f fanout.Frame, into proto.Message) {
	wire := bytes.Join(f.Parts, nil)
	require.Len(t, wire, f.Size)
	require.NoError(t, proto.Unmarshal(wire, into))
}

func diff(t require.TestingT, want, got proto.Message) {
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
}

func plainStateOfTheWorld(r session.Response, own resource.Overlay) *discoveryv3.DiscoveryResponse {
	m := &discoveryv3.DiscoveryResponse{TypeUrl: url(r), Nonce: r.Nonce, VersionInfo: r.Version}
	for _, res := range r.Upserts {
		m.Resources = append(m.Resources, &anypb.Any{TypeUrl: url(r), Value: own.Body(r.Type, res)})
	}
	return m
}

func plainDelta(r session.Response, own resource.Overlay) *discoveryv3.DeltaDiscoveryResponse {
	m := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: url(r), Nonce: r.Nonce, RemovedResources: r.Removed,
	}
	for _, res := range r.Upserts {
		m.Resources = append(m.Resources, &discoveryv3.Resource{
			Name: res.Name(), Version: own.Version(res).String(),
			Resource: &anypb.Any{TypeUrl: url(r), Value: own.Body(r.Type, res)},
		})
	}
	return m
}

func url(r session.Response) string {
	if r.Unknown != "" {
		return r.Unknown
	}
	return r.Type.URL()
}
