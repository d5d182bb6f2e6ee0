package compile

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// merging patches clusters with the fields of another one.
func merging(t *testing.T, c *clusterv3.Cluster) patched {
	t.Helper()
	body, err := proto.Marshal(c)
	require.NoError(t, err)
	return patched{by: model.NewInterner[patch.Patch]().List([]patch.Patch{{ConfigPatch: &model.ConfigPatch{
		Target: model.PatchCluster, Operation: model.PatchMerge,
		Value: model.PatchValue{Type: string(c.ProtoReflect().Descriptor().FullName()), Body: string(body)},
	}}})}
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
	random, same := merging(t, &clusterv3.Cluster{LbPolicy: clusterv3.Cluster_RANDOM}), merging(t, &clusterv3.Cluster{})
	other := clusters.with("a", random)
	require.NotEqual(t, plain.Body(), other.Body())
	require.Same(t, plain.Resource, clusters.with("a", same).Resource, "the bytes are the same")
	require.Equal(t, plain, clusters.get("a"))
	require.Equal(t, other, clusters.with("a", random))
	require.Equal(t, []match{{n: 1}}, decodeMatches(other.matched))
	require.Equal(t, 3, translated)
	require.Equal(t, TranslateStats{Hits: 2, Misses: 3, Equal: 1}, e.memos["cluster"].counts())
}

// A patch that breaks a rule of Envoy is left out alone, and told.
func TestPatchedMessageIsChecked(t *testing.T) {
	var refused []string
	e := newEmitter(resource.NewStore(), Refusals{
		Resource: func(name string, err error) { t.Error(name, err) },
		Patch:    func(r RefusedPatch) { refused = append(refused, r.Resource) },
	})
	clusters := declare(e, "cluster", func(name string) made {
		return made{name: name, message: &clusterv3.Cluster{Name: name}}
	})
	at := merging(t, &clusterv3.Cluster{ConnectTimeout: durationpb.New(0)})
	left := clusters.with("a", at)
	require.Same(t, clusters.get("a").Resource, left.Resource)
	require.Len(t, decodeMatches(left.matched), 1)
	require.Contains(t, decodeMatches(left.matched)[0].failed, "ConnectTimeout")
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
	require.Nil(t, g.members.get(bad).Resource)
	require.Nil(t, g.members.get(bad).Resource)
	require.Equal(t, 1, refused)
}
