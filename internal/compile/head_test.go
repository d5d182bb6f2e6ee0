package compile

import (
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestHeadsHoldNothingSummedOverEndpoints is P23 of docs/protocol.md: what an assignment and its
// localities say beside their endpoints is the same whatever these are, so that one endpoint more
// does not change anything but itself. A sum, such as a locality's weight by the number of its
// endpoints, would. What one part of a rule's distribution is shared by is the one exception.
func TestHeadsHoldNothingSummedOverEndpoints(t *testing.T) {
	store := resource.NewStore()
	of := func(members ...*resource.Resource) *endpointv3.ClusterLoadAssignment {
		list := &groupList{sites: []siteGroup{{
			site:    site{locality: model.Locality{Region: "r", Zone: "z"}},
			members: store.Build(members...),
			weight:  uint64(len(members)),
		}}}
		r := assemble(assignmentKey{cluster: "outbound|80||a.default.svc.cluster.local", list: list})
		var m endpointv3.ClusterLoadAssignment
		require.NoError(t, proto.Unmarshal(r.Body(), &m))
		require.Len(t, m.GetEndpoints(), 1)
		require.Len(t, m.GetEndpoints()[0].GetLbEndpoints(), len(members))
		m.GetEndpoints()[0].LbEndpoints = nil
		return &m
	}
	one, two, three := resource.New("1", nil), resource.New("2", nil), resource.New("3", nil)
	require.True(t, proto.Equal(of(one), of(one, two, three)))
}
