package istiojson_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/istiojson"
)

// Istio's API takes durations in Go's notation.
func TestDurationsInGoNotation(t *testing.T) {
	spec := &networking.VirtualService{}
	require.NoError(t, istiojson.Unmarshal([]byte(`{
		"hosts": ["a.test"],
		"http": [
			{"timeout": "300ms", "retries": {"attempts": 2, "per_try_timeout": "1m30s"},
				"fault": {"delay": {"fixedDelay": "0.5s"}}},
			{"timeout": "2s"}
		]}`), spec, protojson.UnmarshalOptions{}))
	require.Equal(t, 300*time.Millisecond, spec.GetHttp()[0].GetTimeout().AsDuration())
	require.Equal(t, 90*time.Second, spec.GetHttp()[0].GetRetries().GetPerTryTimeout().AsDuration())
	require.Equal(t, 500*time.Millisecond, spec.GetHttp()[0].GetFault().GetDelay().GetFixedDelay().AsDuration())
	require.Equal(t, 2*time.Second, spec.GetHttp()[1].GetTimeout().AsDuration())
}

func TestDurationsWithinMessagesAndByTheirOwnNames(t *testing.T) {
	config := &mesh.MeshConfig{}
	require.NoError(t, istiojson.Unmarshal([]byte(
		`{"connect_timeout": "150ms", "defaultConfig": {"drainDuration": "1m"}}`,
	), config, protojson.UnmarshalOptions{}))
	require.Equal(t, 150*time.Millisecond, config.GetConnectTimeout().AsDuration())
	require.Equal(t, time.Minute, config.GetDefaultConfig().GetDrainDuration().AsDuration())
}

func TestInvalidDurationsStayErrors(t *testing.T) {
	for _, wrong := range []string{
		`{"http": [{"timeout": "soon"}]}`, `{"http": [{"timeout": 300}]}`,
		`{"http": [{"timeout": "300ms", "unknown": 1}]}`, `{"http": "300ms"}`, `[`,
	} {
		require.Error(t, istiojson.Unmarshal(
			[]byte(wrong), &networking.VirtualService{}, protojson.UnmarshalOptions{},
		), wrong)
	}
}

// TestClosedSpecKeepsItsTargets: what stands in for a policy refuses calls to the Gateways that it
// is attached to, and to all workloads if these cannot be read.
func TestClosedSpecKeepsItsTargets(t *testing.T) {
	const target = `{"kind": "Gateway", "group": "gateway.networking.k8s.io", "name": "g"}`
	for raw, want := range map[string]int{
		`{"targetRefs": [` + target + `], "rulez": []}`:                           1,
		`{"targetRefs": [` + target + `, {"kind": "Gateway", "nam": "h"}]}`:       0,
		`{"targetRefs": "g", "rulez": []}`:                                        0,
		`{"selector": {"matchLabels": {"app": "a"}}, "targetRefs": [{"nam": 1}]}`: 0,
	} {
		spec := istiojson.ClosedSpec(kinds.AuthorizationPolicy, json.RawMessage(raw)).(*security.AuthorizationPolicy)
		require.Len(t, spec.GetTargetRefs(), want, raw)
		require.Nil(t, spec.GetSelector(), raw)
	}
}
