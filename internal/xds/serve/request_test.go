package serve

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// FuzzDecodeRequest holds the decoder against the generated types: it must fail on the same bytes, except for errors
// inside of the node, which is left for later, and read the same.
func FuzzDecodeRequest(f *testing.F) {
	node := &corev3.Node{Id: reviewsID}
	for _, m := range []proto.Message{
		&discoveryv3.DeltaDiscoveryRequest{
			Node: node, TypeUrl: "t", ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"c"},
			InitialResourceVersions: map[string]string{"a": "1", "": ""}, ResponseNonce: "n",
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
		compareDelta(t, b)
		compareDelta(t, slices.Concat(b, large))
		compareStateOfTheWorld(t, b)
	})
}

// large is a field that makes a request one whose lists are left where they are.
var large = protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, listsFrom))

func compareDelta(t *testing.T, b []byte) {
	got := request{protocol: session.Delta}
	err := got.decode(b)
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

func compareStateOfTheWorld(t *testing.T, b []byte) {
	got := request{protocol: session.StateOfTheWorld}
	err := got.decode(b)
	var m discoveryv3.DiscoveryRequest
	if proto.Unmarshal(b, &m) != nil {
		return
	}
	require.NoError(t, err)
	want := session.Request{
		TypeURL: m.GetTypeUrl(), Nonce: m.GetResponseNonce(), Names: m.GetResourceNames(), VersionInfo: m.GetVersionInfo(),
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

func TestDecodeRefusesWhatIsNotUTF8(t *testing.T) {
	b := []byte{0x12, 1, 0xff} // type_url of a delta request
	require.ErrorIs(t, (&request{protocol: session.Delta}).decode(b), errUTF8)
}

func TestDecodePassesOverAKnownNode(t *testing.T) {
	b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: strings.Repeat("x", 60000)}, TypeUrl: "t", ResponseNonce: "n",
	})
	require.NoError(t, err)
	r := request{protocol: session.Delta, skipNode: true}
	require.NoError(t, r.decode(b))
	require.Empty(t, r.node)
	require.Equal(t, "n", r.Nonce)
	require.Equal(t, len(b), r.size)
}
