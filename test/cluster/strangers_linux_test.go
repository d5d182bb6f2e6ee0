package cluster

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// strangers ask for certificates and configuration that they may not have, or in a form that nobody
// can read. Each is told why.
func strangers(t *testing.T, c *cluster) {
	token, good := c.token(t), requestOf(t, newKey(t))
	for _, test := range []struct {
		name, token, request string
		code                 codes.Code
		text                 string
	}{
		{"no token", "", good, codes.Unauthenticated, "want a service account's token"},
		{"a forged token", "forged", good, codes.Unauthenticated, "the token is not that of a service account"},
		{"garbage", token, "garbage", codes.InvalidArgument, "the signing request is not in PEM"},
		{"garbage in PEM", token, block("garbage"), codes.InvalidArgument, "the signing request cannot be read"},
		{"a request cut short", token, good[:len(good)/2], codes.InvalidArgument, "the signing request"},
		{"a long request", token, block(strings.Repeat("x", 32<<10)), codes.InvalidArgument, "at most 16384"},
		{"a large request", token, block(strings.Repeat("x", 1<<20)), codes.ResourceExhausted, "want 65536 at most"},
		{"a huge request", token, block(strings.Repeat("x", 8<<20)), codes.ResourceExhausted, "larger than max"},
		{
			"another identity", token, requestOf(t, newKey(t), "spiffe://cluster.local/ns/kube-system/sa/default"),
			codes.PermissionDenied, "not the caller's identity",
		},
		{
			"another trust domain", token, requestOf(t, newKey(t), "spiffe://other.local/ns/default/sa/default"),
			codes.PermissionDenied, "not the caller's identity",
		},
	} {
		_, err := c.createCertificate(t, test.token, test.request)
		require.Equal(t, test.code, grpcstatus.Code(err), "%s: %v", test.name, err)
		require.ErrorContains(t, err, test.text, test.name)
	}
	for _, test := range []struct {
		name, token, namespace string
		bytes                  int // of metadata
		code                   codes.Code
		text                   string
	}{
		{"no token", "", space, 0, codes.Unauthenticated, "want a service account's token"},
		{"another namespace", token, "kube-system", 0, codes.PermissionDenied, "claims namespace"},
		{"large metadata", token, space, 1 << 20, codes.ResourceExhausted, "fewer or shorter labels"},
		{"huge metadata", token, space, 8 << 20, codes.ResourceExhausted, "larger than max"},
	} {
		err := c.openStream(t, test.token, test.namespace, test.bytes)
		require.Equal(t, test.code, grpcstatus.Code(err), "%s: %v", test.name, err)
		require.ErrorContains(t, err, test.text, test.name)
	}
}

// openStream asks for configuration as a sidecar with so much metadata, and returns the error.
func (c *cluster) openStream(t *testing.T, token, namespace string, bytes int) error {
	t.Helper()
	conn, ctx, end := c.connect(t, token)
	defer end()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	claims, err := structpb.NewStruct(map[string]any{"NAMESPACE": namespace, "X": strings.Repeat("x", bytes)})
	require.NoError(t, err)
	_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{ // Recv tells why it fails
		Node: &corev3.Node{
			Id: "sidecar~10.0.0.1~stranger." + namespace + "~" + namespace + ".svc.cluster.local", Metadata: claims,
		},
		TypeUrl: typeurl.Cluster,
	})
	_, err = stream.Recv()
	return err
}
