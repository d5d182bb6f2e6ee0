package compile

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// lbPolicy patches clusters.
func lbPolicy(p clusterv3.Cluster_LbPolicy) *patches {
	return &patches{apply: func(_ string, m validatable) validatable {
		patched := proto.CloneOf(m.(*clusterv3.Cluster))
		patched.LbPolicy = p
		return patched
	}}
}

// The key of an emission is the input and the patches: each pair is translated once, and equal
// outputs are one resource.
func TestEmissionIsRememberedByInputAndPatches(t *testing.T) {
	e := newEmitter(resource.NewStore(), Refusals{Resource: func(string, error) { t.Error("refused") }})
	translated := 0
	clusters := declare(e, "cluster", func(name string) made {
		translated++
		return made{name: name, message: &clusterv3.Cluster{Name: name}}
	})
	plain := clusters.get("a")
	random, same := lbPolicy(clusterv3.Cluster_RANDOM), lbPolicy(clusterv3.Cluster_ROUND_ROBIN)
	other := clusters.patched("a", random)
	require.NotEqual(t, plain.Body(), other.Body())
	require.Same(t, plain, clusters.patched("a", same), "patches that change nothing make the same bytes")
	require.Same(t, plain, clusters.get("a"))
	require.Same(t, other, clusters.patched("a", random))
	require.Equal(t, 3, translated)
	require.Equal(t, TranslateStats{Hits: 2, Misses: 3, Equal: 1}, e.memos["cluster"].counts())
}

// What patches break is kept back as what a translation breaks is.
func TestPatchedMessageIsChecked(t *testing.T) {
	var refused []string
	e := newEmitter(resource.NewStore(), Refusals{
		Resource: func(name string, _ error) { refused = append(refused, name) },
	})
	clusters := declare(e, "cluster", func(name string) made {
		return made{name: name, message: &clusterv3.Cluster{Name: name}}
	})
	nameless := &patches{apply: func(string, validatable) validatable { return &clusterv3.Cluster{} }}
	require.Nil(t, clusters.patched("a", nameless))
	require.NotNil(t, clusters.get("a"))
	require.Equal(t, []string{"a"}, refused)
}

// An endpoint that must not be encoded is told as an endpoint, once, and is no resource.
func TestRefusedEndpointIsNoResource(t *testing.T) {
	refused := 0
	g := newGroups(newEmitter(resource.NewStore(), Refusals{
		Resource: func(_ string, err error) { t.Error(err) },
		Endpoint: func(_ model.Endpoint, err error) { refused++ },
	}))
	bad := memberKey{in: endpoint.Input{Address: "not an address", Port: 80}}
	require.Nil(t, g.members.get(bad))
	require.Nil(t, g.members.get(bad))
	require.Equal(t, 1, refused)
}
