package serve

import (
	"io"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// FuzzDecodeRequest holds the decoder against the generated types: it must fail on the same bytes,
// except for errors inside of the node, which is left for later, and read the same.
func FuzzDecodeRequest(f *testing.F) {
	node := &corev3.Node{Id: reviewsID}
	for _, m := range []proto.Message{
		&discoveryv3.DeltaDiscoveryRequest{
			Node:                     node,
			TypeUrl:                  "t",
			ResourceNamesSubscribe:   []string{"a", "b"},
			ResourceNamesUnsubscribe: []string{"c"},
			InitialResourceVersions:  map[string]string{"a": "1", "": ""}, ResponseNonce: "n",
			ErrorDetail: &statusv1.Status{Code: 3, Message: "bad"},
		},
		&discoveryv3.DeltaDiscoveryRequest{},
		&discoveryv3.DiscoveryRequest{
			VersionInfo: "v", Node: node, ResourceNames: []string{"a"}, TypeUrl: "t", ResponseNonce: "n",
			ErrorDetail: &statusv1.Status{Code: 13, Message: "bad"},
		},
	} {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, size := range []int{1, 7, 300, len(b) + len(large)} {
			compareDelta(t, b, size)
			compareDelta(t, slices.Concat(b, large), size)
			compareDelta(t, slices.Concat(large, b), size)
			compareStateOfTheWorld(t, b, size)
		}
	})
}

// inPieces is a message in buffers of a size, one of which is empty.
func inPieces(b []byte, size int) mem.BufferSlice {
	pieces := mem.BufferSlice{mem.SliceBuffer{}}
	for piece := range slices.Chunk(b, size) {
		pieces = append(pieces, mem.SliceBuffer(piece))
	}
	return pieces
}

// large is a field that makes a request one whose lists are left where they are.
var large = protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, listsFrom))

func compareDelta(t *testing.T, b []byte, size int) {
	got := request{protocol: session.Delta}
	err := got.decode(inPieces(b, size))
	var m discoveryv3.DeltaDiscoveryRequest
	if proto.Unmarshal(b, &m) != nil {
		return // the generated code looks deeper: into the node and into fields that we pass over
	}
	require.NoError(t, err)
	want := session.Request{
		TypeURL: m.GetTypeUrl(), Nonce: m.GetResponseNonce(), Subscribe: m.GetResourceNamesSubscribe(),
		Unsubscribe: m.GetResourceNamesUnsubscribe(), InitialVersions: m.GetInitialResourceVersions(),
	}
	require.Equal(t, len(b) >= listsFrom, got.Lists != nil)
	unfold(t, &got)
	compare(t, want, m.GetErrorDetail(), m.GetNode(), got)
}

// unfold makes what is in the lists what it would be without.
func unfold(t *testing.T, r *request) {
	if r.Lists == nil {
		return
	}
	names, versions := 0, 0
	for name := range r.Lists.Subscribed() {
		names++
		r.Subscribe = append(r.Subscribe, string(name))
	}
	for name, version := range r.Lists.Reported() {
		versions++
		if r.InitialVersions == nil {
			r.InitialVersions = map[string]string{}
		}
		r.InitialVersions[string(name)] = string(version)
	}
	n, v := r.Lists.Lengths()
	require.Equal(t, []int{names, versions}, []int{n, v})
	r.Lists = nil
}

func compareStateOfTheWorld(t *testing.T, b []byte, size int) {
	got := request{protocol: session.StateOfTheWorld}
	err := got.decode(inPieces(b, size))
	var m discoveryv3.DiscoveryRequest
	if proto.Unmarshal(b, &m) != nil {
		return
	}
	require.NoError(t, err)
	want := session.Request{
		TypeURL:     m.GetTypeUrl(),
		Nonce:       m.GetResponseNonce(),
		Names:       m.GetResourceNames(),
		VersionInfo: m.GetVersionInfo(),
	}
	compare(t, want, m.GetErrorDetail(), m.GetNode(), got)
}

func compare(t *testing.T, want session.Request, nack *statusv1.Status, node *corev3.Node, got request) {
	if nack != nil {
		want.Nack = &session.Nack{Code: nack.GetCode(), Message: nack.GetMessage()}
	}
	require.Empty(t, cmp.Diff(want, got.Request, cmpopts.EquateEmpty()))
	var gotNode corev3.Node
	require.NoError(t, proto.Unmarshal(got.node, &gotNode))
	if node == nil {
		node = &corev3.Node{}
	}
	require.True(t, proto.Equal(node, &gotNode))
}

// Short and long, in small requests and in large ones, wherever a frame ends.
func TestDecodeRefusesWhatIsNotUTF8(t *testing.T) {
	const bad = "\xff"
	for _, text := range []string{
		"", "caf\u00e9", strings.Repeat("x", 7), strings.Repeat("x", 59), strings.Repeat("x", 200),
	} {
		decodeAll(t, &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl:                 text,
			ResourceNamesSubscribe:  []string{text},
			InitialResourceVersions: map[string]string{text: text},
		}, nil)
		for _, m := range []*discoveryv3.DeltaDiscoveryRequest{
			{TypeUrl: text + bad},
			{ResourceNamesSubscribe: []string{"a", text + bad}},
			{InitialResourceVersions: map[string]string{text + bad: text}},
			{InitialResourceVersions: map[string]string{text: bad + text}},
		} {
			decodeAll(t, m, errUTF8)
		}
	}
}

// decodeAll requires the same of a request, alone and as a large one, in pieces of any size.
func decodeAll(t *testing.T, m *discoveryv3.DeltaDiscoveryRequest, want error) {
	b := encoded(m)
	for _, whole := range [][]byte{b, slices.Concat(b, large), slices.Concat(large, b)} {
		for _, size := range []int{1, 5, 64, len(whole)} {
			r := request{protocol: session.Delta}
			require.ErrorIs(t, r.decode(inPieces(whole, size)), want)
			require.Equal(t, want == nil && len(whole) >= listsFrom, r.Lists != nil)
		}
	}
}

// encoded is a request as it would be if Go's encoder let any string pass.
func encoded(m *discoveryv3.DeltaDiscoveryRequest) (b []byte) {
	text := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	b = text(nil, deltaTypeURL, m.GetTypeUrl())
	for _, name := range m.GetResourceNamesSubscribe() {
		b = text(b, deltaSubscribe, name)
	}
	for name, version := range m.GetInitialResourceVersions() {
		b = text(b, deltaInitial, string(text(text(nil, mapKey, name), mapValue, version)))
	}
	return b
}

// What ends in the middle of a field is refused, whether or not a frame ends there too.
func TestDecodeRefusesWhatIsCutOff(t *testing.T) {
	b := encoded(&discoveryv3.DeltaDiscoveryRequest{
		InitialResourceVersions: map[string]string{strings.Repeat("x", 200): "v"},
	})
	ends := []int{0, 2} // after the type
	for n := range b {
		for _, size := range []int{1, 5, 64, len(b)} {
			err := (&request{protocol: session.Delta}).decode(inPieces(b[:n], size))
			if slices.Contains(ends, n) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			}
		}
	}
}

// What waits is held in the frames that it came in, unless these are tiny.
func TestDecodeJoinsTinyFrames(t *testing.T) {
	for size, want := range map[int]int{
		1: 1, minBytesPerBuffer: 1, minBytesPerBuffer + 1: len(large)/(minBytesPerBuffer+1) + 1, 1 << 20: 1,
	} {
		pieces := inPieces(large, size)[1:]
		in := incoming{protocol: session.Delta, pools: &pools{}}
		require.NoError(t, newCodec().Unmarshal(pieces, &in))
		r := in.request
		require.Len(t, r.lists.message, want)
		require.Equal(t, large, r.lists.message.Materialize())
		r.release()
		require.Nil(t, r.Lists)
	}
}

// A group is read as often as it doubles, not with each frame that it is in; and what comes behind
// it is not lost.
func TestDecodeReadsWhatIsBehindAGroup(t *testing.T) {
	group := protowire.AppendTag(nil, 98, protowire.StartGroupType)
	group = append(append(group, large...), protowire.AppendTag(nil, 98, protowire.EndGroupType)...)
	want := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: "t", ResourceNamesSubscribe: []string{"a", strings.Repeat("b", 300), "c"},
	}
	for _, size := range []int{1, 5, 64, 1000, 1 << 20} {
		r := request{protocol: session.Delta}
		require.NoError(t, r.decode(inPieces(append(group, encoded(want)...), size)))
		unfold(t, &r)
		require.Equal(t, "t", r.TypeURL)
		require.Equal(t, want.GetResourceNamesSubscribe(), r.Subscribe)
	}
}

func TestDecodeSkipsAKnownNode(t *testing.T) {
	b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: strings.Repeat("x", 60000)}, TypeUrl: "t", ResponseNonce: "n",
	})
	require.NoError(t, err)
	r := request{protocol: session.Delta, skipNode: true}
	require.NoError(t, r.decode(inPieces(b, 1<<10)))
	require.Empty(t, r.node)
	require.Equal(t, "n", r.Nonce)
	require.Equal(t, len(b), r.size)
}
