package pb_test

import (
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

func TestAnyUnpacksToTheMessage(t *testing.T) {
	want := &routev3.VirtualHost{Name: "a", Domains: []string{"a", "b"}}
	got, err := pb.Any(want).UnmarshalNew()
	require.NoError(t, err)
	require.True(t, proto.Equal(want, got))
}

func TestAnyOfWhatCannotBeEncodedHasNoType(t *testing.T) {
	require.Empty(t, pb.Any(&routev3.VirtualHost{Name: "\xff"}).GetTypeUrl())
}

func TestMarshalOrdersMaps(t *testing.T) {
	bytes := func() string {
		m := &routev3.VirtualHost{TypedPerFilterConfig: map[string]*anypb.Any{}}
		for _, name := range []string{"c", "a", "d", "b"} {
			m.TypedPerFilterConfig[name] = &anypb.Any{TypeUrl: name}
		}
		b, err := pb.Marshal(m)
		require.NoError(t, err)
		return string(b)
	}
	want := bytes()
	for range 50 {
		require.Equal(t, want, bytes())
	}
}

func TestOptionalValuesOfZeroAreUnset(t *testing.T) {
	require.Nil(t, pb.OptionalDuration(0))
	require.NotNil(t, pb.Duration(0))
	require.Equal(t, time.Second, pb.OptionalDuration(time.Second).AsDuration())
	require.Nil(t, pb.OptionalUint32(0))
	require.Equal(t, uint32(3), pb.OptionalUint32(3).GetValue())
}

func TestOutboundClusterHasIstiosName(t *testing.T) {
	require.Equal(t, "outbound|9080||a.b", pb.OutboundCluster("a.b", 9080, ""))
	require.Equal(t, "outbound|9080|v1|a.b", pb.OutboundCluster("a.b", 9080, "v1"))
}
