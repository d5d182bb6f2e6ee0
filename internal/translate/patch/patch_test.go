package patch_test

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/envoyfilter"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func TestPatchesAreMemoKeys(t *testing.T) {
	translatetest.RequireInput(t, patch.Patch{})
	translatetest.RequireInput(t, patch.ClusterSite{})
	translatetest.RequireInput(t, patch.TableSite{})
}

// mergeInto returns a patch that merges a value into clusters.
func mergeInto(t *testing.T, operation model.PatchOperation, value *clusterv3.Cluster) patch.Patches {
	t.Helper()
	body, err := proto.Marshal(value)
	require.NoError(t, err)
	return model.NewInterner[patch.Patch]().List([]patch.Patch{{ConfigPatch: &model.ConfigPatch{
		Target: model.PatchCluster, Operation: operation,
		Value: model.PatchValue{Type: string(value.ProtoReflect().Descriptor().FullName()), Body: string(body)},
	}}})
}

// Istio's API has the operation since 1.32.
func TestListsAreReplaced(t *testing.T) {
	threshold := func(connections uint32) *clusterv3.CircuitBreakers {
		c := &clusterv3.Cluster{}
		text := []byte(`{"circuitBreakers": {"thresholds": [{"maxRetries": 1}]}}`)
		require.NoError(t, protojson.Unmarshal(text, c))
		c.CircuitBreakers.Thresholds[0].MaxRetries.Value = connections
		return c.GetCircuitBreakers()
	}
	of := &clusterv3.Cluster{Name: "a", CircuitBreakers: threshold(1)}
	value := &clusterv3.Cluster{CircuitBreakers: threshold(2)}
	appended, _ := patch.Cluster(of, patch.ClusterSite{}, mergeInto(t, model.PatchMerge, value))
	require.Len(t, appended.GetCircuitBreakers().GetThresholds(), 2)
	replaced, _ := patch.Cluster(of, patch.ClusterSite{}, mergeInto(t, model.PatchMergeLists, value))
	require.True(t, proto.Equal(value.GetCircuitBreakers(), replaced.GetCircuitBreakers()))
}

// FuzzPatches applies what is written as patches to all messages of testdata/base: nothing panics,
// nothing that is given changes, and equal patches come to equal messages.
func FuzzPatches(f *testing.F) {
	for _, seed := range []string{
		`{"configPatches": [{"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": {"connect_timeout": "1s"}}}]}`,
		`{"configPatches": [{"applyTo": "HTTP_FILTER", "patch": {"operation": "REMOVE"}, "match": {"listener": {
			"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager",
			"subFilter": {"name": "envoy.filters.http.router"}}}}}}]}`,
		`{"configPatches": [{"applyTo": "HTTP_ROUTE", "patch": {"operation": "MERGE", "value": {"route": {"timeout": "1s"}}}}]}`,
		`{"configPatches": [{"applyTo": "NETWORK_FILTER", "patch": {"operation": "MERGE", "value": {"typed_config": {
			"@type": "type.googleapis.com/udpa.type.v1.TypedStruct",
			"type_url": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
			"value": {"idle_timeout": "1s"}}}}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		spec := &networking.EnvoyFilter{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, spec) != nil {
			return
		}
		var list []patch.Patch
		read, _ := envoyfilter.Read(spec, false)
		for _, p := range read {
			list = append(list, patch.Patch{ConfigPatch: p})
		}
		by := model.NewInterner[patch.Patch]().List(list)
		for _, m := range append(readBase(t, "sidecar"), readBase(t, "gateway")...) {
			_, once, _ := m.patched(t, by)
			_, again, _ := m.patched(t, by)
			require.Equal(t, once, again)
		}
	})
}
