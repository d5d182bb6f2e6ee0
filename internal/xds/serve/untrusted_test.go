package serve

import (
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestVersionsOfProxiesAreFewLabels(t *testing.T) {
	var v versionLabels
	require.Equal(t, "1.29 x", v.label("1.29\nx"))
	for i := range 2 * maxVersions {
		v.label(fmt.Sprint(i))
	}
	require.Len(t, v.known, maxVersions)
	require.Equal(t, "1.29 x", v.label("1.29\nx"), "who has connected is counted as before")
	require.Equal(t, "other", v.label("new"))
}

func TestCodesOfClientsAreFewLabels(t *testing.T) {
	require.Equal(t, "InvalidArgument", codeLabel(codes.InvalidArgument))
	require.Equal(t, "Unknown", codeLabel(12345))
}

// A client's words are one line of bounded length in the log, and no labels of their own.
func TestNackIsLoggedShortAndOnOneLine(t *testing.T) {
	f := newFixture(t)
	node := nodeOf(reviewsID)
	var err error
	version := strings.Repeat("v", 1<<10) + "\nlevel=ERROR"
	node.Metadata, err = structpb.NewStruct(map[string]any{"ISTIO_VERSION": version})
	require.NoError(t, err)
	d := f.delta(node)
	r := d.recv()
	d.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(),
		ErrorDetail: &statusv1.Status{Code: 4711, Message: "bad\n\x1b[2Jlevel=ERROR " + strings.Repeat("x", 1<<20)},
	})
	f.eventually("logged", func() bool { return strings.Contains(f.log.String(), "proxy refused its configuration") })
	for line := range strings.Lines(f.log.String()) {
		require.Less(t, len(line), maxLogText+1<<10)
		require.NotContains(t, line, "\x1b")
	}
	require.Equal(t, 1.0, f.value("pilot_xds_cds_reject", "err", "Unknown"))
	require.Equal(t, 1.0, f.value("pilot_xds", "version", strings.Repeat("v", maxVersion-len("…"))+"…"))
}

func TestRefusalOfALongNodeIDIsShort(t *testing.T) {
	f := newFixture(t)
	_, err := f.delta(nodeOf(strings.Repeat("x~", 1<<18))).stream.Recv()
	require.Less(t, len(err.Error()), maxLogText+1<<10)
	f.eventually("logged", func() bool { return strings.Contains(f.log.String(), "stream refused") })
	require.Less(t, len(f.log.String()), maxLogText+1<<10)
}
