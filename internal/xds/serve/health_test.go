package serve

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// TestHealthIsPassedOn: what an agent tells of its workload is no refusal, and gets no answer.
func TestHealthIsPassedOn(t *testing.T) {
	told := make(chan Health, 4)
	f := newFixture(t, func(o *Options) {
		o.Health = func(c *fanout.Conn, h Health) bool {
			told <- h
			return c != nil
		}
	})
	s := f.delta(nodeOf("sidecar~10.0.0.7~vm-1.default~default.svc.cluster.local"))
	s.ack(s.recv())
	s.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: HealthType})
	require.Equal(t, Health{Healthy: true}, <-told)
	s.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: HealthType, ErrorDetail: &statusv1.Status{Code: 500, Message: "connection refused"},
	})
	require.Equal(t, Health{Message: "connection refused"}, <-told)
	f.publish(f.clusters(2, 1, "a", "b", "c"))
	require.Equal(t, "c", s.recv().GetResources()[0].GetName(), "the next is of what the proxy asked for")
	require.Zero(t, f.value("pilot_total_xds_rejects", "type", "cds"))
	require.NotContains(t, f.log.String(), "refused its configuration")
}

// TestHealthOfNobodyIsDropped, counted and logged, also as the first request of a stream.
func TestHealthOfNobodyIsDropped(t *testing.T) {
	f := newFixture(t)
	s, err := f.client.DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: nodeOf("sidecar~10.0.0.7~vm-1.default~default.svc.cluster.local"), TypeUrl: HealthType,
	}))
	f.logged("health of a workload that has no WorkloadEntry")
	require.Equal(t, 1.0, f.value("lateen_drops_total", "reason", "health_of_no_entry"))
}

// TestMachinesSayWhatTheyRegister.
func TestMachinesSayWhatTheyRegister(t *testing.T) {
	for _, c := range []struct {
		metadata map[string]any
		want     Registration
		wants    bool
	}{
		{map[string]any{"NETWORK": "far", "LABELS": map[string]any{"a": "b"}}, Registration{}, false},
		{map[string]any{"LABELS": map[string]any{"AUTO_REGISTER_GROUP": "vms"}}, Registration{}, false},
		{map[string]any{"AUTO_REGISTER_GROUP": ""}, Registration{}, false},
		{map[string]any{"AUTO_REGISTER_GROUP": "vms", "NETWORK": "far"},
			Registration{Group: "vms", Network: "far"}, true},
		{map[string]any{"WORKLOAD_ENTRY": "one", "PROXY_CONFIG": map[string]any{"readinessProbe": map[string]any{}}},
			Registration{Entry: "one", Probes: true}, true},
	} {
		metadata, err := structpb.NewStruct(c.metadata)
		require.NoError(t, err)
		parsed, err := parseMetadata(metadata)
		require.NoError(t, err)
		got, wants := parsed.Registration()
		require.Equal(t, c.wants, wants, c.metadata)
		if wants {
			require.Equal(t, c.want, got)
		}
	}
}
