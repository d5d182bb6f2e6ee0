package serve

import (
	"context"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// echoInspector answers with who asks for what, and refuses names that begin with "no".
type echoInspector struct{}

func (echoInspector) Inspect(id Identity, typeURL string, names []string) (Inspection, error) {
	asked := strings.Join(names, ",")
	if strings.HasPrefix(asked, "no") {
		return Inspection{}, status.Error(codes.PermissionDenied, "not "+asked)
	}
	body := &anypb.Any{TypeUrl: typeURL, Value: []byte(id.ServiceAccount + " " + asked)}
	return Inspection{Resources: []InspectedResource{{Name: asked, Body: body}}, ControlPlane: "istiod"}, nil
}

func withInspector(o *Options) {
	o.Inspector = echoInspector{}
	o.Authenticator = tokens{
		"Bearer pod": ofReviews, "Bearer tool": {Namespace: "istio-system", ServiceAccount: "tool"},
	}
}

// istioctl's node is that of a Pod that does not exist, and its first request has a nonce.
func istioctlRequest(typ string, names ...string) *discoveryv3.DiscoveryRequest {
	return &discoveryv3.DiscoveryRequest{
		Node:    nodeOf("sidecar~~test-1.default~default.svc.cluster.local"),
		TypeUrl: InspectionType + typ, ResourceNames: names, ResponseNonce: "2026-01-01 00:00:00",
	}
}

func (f *fixture) tool(token string) context.Context {
	return metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+token)
}

func TestToolsAreAnswered(t *testing.T) {
	f := newFixture(t, withInspector)
	s, err := f.client.StreamAggregatedResources(f.tool("tool"))
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		require.NoError(t, s.Send(istioctlRequest("", name)))
		r, err := s.Recv()
		require.NoError(t, err)
		require.Equal(t, InspectionType, r.GetTypeUrl())
		require.Equal(t, "istiod", r.GetControlPlane().GetIdentifier())
		require.Equal(t, "tool "+name, string(r.GetResources()[0].GetValue()))
		require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: r.GetTypeUrl(), ResourceNames: []string{name}, ResponseNonce: r.GetNonce(),
			VersionInfo: r.GetVersionInfo(),
		}), "an acknowledgement, which is not answered")
	}
	require.Empty(t, f.server.Clients(), "a tool is no proxy")

	require.NoError(t, s.Send(istioctlRequest("/syncz", "no")))
	_, err = s.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), err)
}

func TestToolsAreAnsweredByDelta(t *testing.T) {
	f := newFixture(t, withInspector)
	s, err := f.client.DeltaAggregatedResources(f.tool("tool"))
	require.NoError(t, err)
	require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: nodeOf(reviewsID), TypeUrl: InspectionType + "/syncz", ResourceNamesSubscribe: []string{"a"},
	}))
	r, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, "a", r.GetResources()[0].GetName())
	require.Equal(t, "tool a", string(r.GetResources()[0].GetResource().GetValue()))

	require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.Cluster.URL()}))
	_, err = s.Recv()
	require.Equal(t, codes.InvalidArgument, status.Code(err), "it has begun as a tool's stream")
}

func TestToolsProveWhoTheyAre(t *testing.T) {
	f := newFixture(t, withInspector)
	s, err := f.client.StreamAggregatedResources(f.tool("forged"))
	require.NoError(t, err)
	_ = s.Send(istioctlRequest("/syncz")) // it may have ended already
	_, err = s.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}

// A tool in a Pod that was removed gets nothing, though its token may be valid for longer.
func TestToolsOfRemovedPodsAreRefused(t *testing.T) {
	f := newFixture(t, withInspector)
	f.server.PodGone(ofReviews.Namespace, ofReviews.Pod)
	s, err := f.client.StreamAggregatedResources(f.tool("pod"))
	require.NoError(t, err)
	_ = s.Send(istioctlRequest("/syncz", "a")) // it may have ended already
	_, err = s.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), err)
}

// TestToolAsksThroughAProxy: Istio's agent passes a tool's requests on in Envoy's stream. It goes
// on, also when the tool is refused.
func TestToolAsksThroughAProxy(t *testing.T) {
	f := newFixture(t, withInspector)
	d := f.withToken("pod", reviewsID)
	d.ack(d.recv())
	for name, want := range map[string]string{"a": "reviews a", "no": "not no"} {
		d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: InspectionType, ResourceNamesSubscribe: []string{name}})
		r := d.recv()
		require.Equal(t, InspectionType, r.GetTypeUrl())
		require.Equal(t, want, string(r.GetResources()[0].GetResource().GetValue()))
	}
	f.publish(f.clusters(2, 1, "a", "b", "c"))
	require.Equal(t, "c", d.recv().GetResources()[0].GetName())
}

// inspectorFunc answers with what a function returns.
type inspectorFunc func() Inspection

func (i inspectorFunc) Inspect(Identity, string, []string) (Inspection, error) { return i(), nil }

// TestPushDuringATool: a push that finds the session busy with a tool's request is made after it.
func TestPushDuringATool(t *testing.T) {
	var f *fixture
	f = newFixture(t, func(o *Options) {
		o.Inspector = inspectorFunc(func() Inspection {
			f.publish(f.clusters(2, 1, "a", "b", "c"))
			f.eventually("the push is missed", func() bool {
				f.server.mu.Lock()
				defer f.server.mu.Unlock()
				for st := range f.server.streams {
					return st.driver.now().due == duePush
				}
				return false
			})
			return Inspection{}
		})
	})
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
	d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: InspectionType})
	require.Equal(t, InspectionType, d.recv().GetTypeUrl())
	require.Equal(t, "c", d.recv().GetResources()[0].GetName())
}

func TestWithoutAnInspectorToolsAreRefused(t *testing.T) {
	f := newFixture(t)
	s, err := f.client.StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Send(istioctlRequest("/syncz")))
	_, err = s.Recv()
	require.Equal(t, codes.Unimplemented, status.Code(err))
}
