package endpoint_test

import (
	"math"
	"net/netip"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func TestInputsAreMemoKeys(t *testing.T) {
	for _, in := range []any{
		endpoint.Input{}, endpoint.GroupInput{}, endpoint.AssignmentInput{}, endpoint.Preference{},
	} {
		translatetest.RequireInput(t, in)
	}
}

func TestEndpointShowsItsInput(t *testing.T) {
	for name, c := range map[string]struct {
		in   endpoint.Input
		want string
	}{
		"plain": {
			endpoint.Input{Address: "10.0.0.1", Port: 9080},
			`{"endpoint": {"address": {"socketAddress": {"address": "10.0.0.1", "portValue": 9080}}}}`,
		},
		"everything": {
			endpoint.Input{
				Address:  "FD00::0:1",
				Port:     65535,
				Health:   model.Draining,
				Weight:   7,
				Workload: "reviews-v1;default;reviews;v1;",
				TLS:      true,
			},
			`{"endpoint": {"address": {"socketAddress": {"address": "fd00::1", "portValue": 65535}}},
			  "healthStatus": "DRAINING", "loadBalancingWeight": 7, "metadata": {"filterMetadata": {
			    "istio": {"workload": "reviews-v1;default;reviews;v1;"},
			    "envoy.transport_socket_match": {"tlsMode": "istio"}}}}`,
		},
		"unhealthy, too heavy": {
			endpoint.Input{Address: "127.0.0.1", Port: 1, Health: model.Unhealthy, Weight: math.MaxUint32},
			`{"endpoint": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": 1}}},
			  "healthStatus": "UNHEALTHY", "loadBalancingWeight": 65535}`,
		},
		"Unix socket": {
			endpoint.Input{Address: "unix:///run/app.sock"},
			`{"endpoint": {"address": {"pipe": {"path": "/run/app.sock"}}}}`,
		},
		"two addresses": {
			endpoint.Input{Address: "FD00::1", Port: 80, Other: "10.0.0.1"},
			`{"endpoint": {"address": {"socketAddress": {"address": "fd00::1", "portValue": 80}},
			  "additionalAddresses": [{"address": {"socketAddress": {"address": "10.0.0.1", "portValue": 80}}}]}}`,
		},
		"IPv4 in IPv6": {
			endpoint.Input{Address: "::FFFF:10.0.0.1", Port: 80},
			`{"endpoint": {"address": {"socketAddress": {"address": "::ffff:10.0.0.1", "portValue": 80}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := endpoint.Endpoint(c.in)
			require.NoError(t, err)
			want := &endpointv3.LbEndpoint{}
			require.NoError(t, protojson.Unmarshal([]byte(c.want), want))
			require.Equal(t, translatetest.Text(t, want), translatetest.Text(t, got))
		})
	}
}

func TestGateRefuses(t *testing.T) {
	for _, c := range []struct {
		address string
		port    uint16
		want    string
	}{
		{"", 80, `endpoint address "": want an IP address`},
		{"reviews", 80, `endpoint address "reviews": want an IP address`},
		{"10.0.0.1:80", 80, `endpoint address "10.0.0.1:80": want an IP address`},
		{"10.0.0.1/32", 80, `endpoint address "10.0.0.1/32": want an IP address`},
		{"010.0.0.1", 80, `endpoint address "010.0.0.1": want an IP address`},
		{"[::1]", 80, `endpoint address "[::1]": want an IP address`},
		{" 10.0.0.1", 80, `endpoint address " 10.0.0.1": want an IP address`},
		{"10.0.0.1\x00", 80, `endpoint address "10.0.0.1\x00": want an IP address`},
		{"/run/app.sock", 80, `endpoint address "/run/app.sock": want an IP address`},
		{model.OwnPod, 80, `endpoint address "@pod": want an IP address`},
		{"fe80::1%eth0", 80, `endpoint address "fe80::1%eth0": want an IP address without a zone`},
		{"0.0.0.0", 80, `endpoint address "0.0.0.0": want the address of one host`},
		{"::", 80, `endpoint address "::": want the address of one host`},
		{"::ffff:0.0.0.0", 80, `endpoint address "::ffff:0.0.0.0": want the address of one host`},
		{"224.0.0.1", 80, `endpoint address "224.0.0.1": want the address of one host`},
		{"ff02::1", 80, `endpoint address "ff02::1": want the address of one host`},
		{"10.0.0.1", 0, `endpoint 10.0.0.1: port 0: want 1 to 65535`},
	} {
		got, err := endpoint.Endpoint(endpoint.Input{Address: c.address, Port: c.port})
		require.EqualError(t, err, c.want)
		require.Nil(t, got)
		if c.address != "" && c.port != 0 { // as the second one too
			got, err = endpoint.Endpoint(endpoint.Input{Address: "10.0.0.1", Port: c.port, Other: c.address})
			require.EqualError(t, err, c.want)
			require.Nil(t, got)
		}
	}
}

// FuzzGate guards the members of LEDS collections, of which a bad one aborts Envoy: nothing gets
// through but the address of one host, spelled the one way that every parser reads alike, and a
// port.
func FuzzGate(f *testing.F) {
	for _, address := range []string{
		"10.0.0.1", "::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::", "fe80::1%1", "1.2.3", "0x7f.1", "127.1", "localhost",
		"", "::ffff:0:0",
	} {
		f.Add(address, uint16(80), uint32(1))
		f.Add(address, uint16(0), uint32(0))
	}
	f.Fuzz(func(t *testing.T, address string, port uint16, weight uint32) {
		got, err := endpoint.Endpoint(endpoint.Input{Address: address, Port: port, Weight: weight})
		if err != nil {
			require.Nil(t, got)
			return
		}
		socket := got.GetEndpoint().GetAddress().GetSocketAddress()
		addr, err := netip.ParseAddr(socket.GetAddress())
		require.NoError(t, err)
		require.Equal(t, addr.String(), socket.GetAddress())
		require.Empty(t, addr.Zone())
		require.False(t, addr.IsUnspecified() || addr.IsMulticast())
		require.Equal(t, netip.MustParseAddr(address), addr, "the address was changed")
		require.NotZero(t, socket.GetPortValue())
		require.LessOrEqual(t, socket.GetPortValue(), uint32(65535))
		if w := got.GetLoadBalancingWeight(); w != nil {
			require.NotZero(t, w.GetValue())
			require.LessOrEqual(t, w.GetValue(), uint32(endpoint.MaxWeight))
		}
		body, err := pb.Marshal(got)
		require.NoError(t, err)
		require.NotEmpty(t, body)
		require.NoError(t, proto.Unmarshal(body, &endpointv3.LbEndpoint{}))
	})
}

func TestAssignmentsAndGroupsWithoutEndpoints(t *testing.T) {
	require.Equal(t, "clusterName: outbound|80||a.test\n", translatetest.Text(
		t, endpoint.Assignment(endpoint.AssignmentInput{Cluster: "outbound|80||a.test"}),
	))
	require.Equal(t, "{}\n", translatetest.Text(t, endpoint.Group(endpoint.GroupInput{})))
	group := endpoint.Group(endpoint.GroupInput{
		Locality: model.Locality{Region: "r", Zone: "z", Subzone: "s"}, Priority: 1000, Weight: 3,
	})
	require.Equal(
		t, "loadBalancingWeight: 3\nlocality:\n  region: r\n  subZone: s\n  zone: z\npriority: 128\n",
		translatetest.Text(t, group),
	)
}

func drawInput(t *rapid.T) endpoint.Input {
	return endpoint.Input{
		Address: rapid.SampledFrom([]string{
			"10.0.0.1", "127.0.0.9", "::1", "fd00::0:1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::",
		}).Draw(t, "address"),
		Port:     rapid.Uint16Min(1).Draw(t, "port"),
		Health:   rapid.SampledFrom([]model.Health{model.Healthy, model.Unhealthy, model.Draining}).Draw(t, "health"),
		Weight:   rapid.Uint32().Draw(t, "weight"),
		Workload: rapid.SampledFrom([]string{"", "default/a", "a;b;a;latest;;;", "a/b/c"}).Draw(t, "workload"),
		TLS:      rapid.Bool().Draw(t, "tls"),
	}
}

func TestEqualInputsHaveEqualBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawInput(rt)
		bytes := func() []byte {
			e, err := endpoint.Endpoint(in)
			require.NoError(rt, err)
			b, err := pb.Marshal(e)
			require.NoError(rt, err)
			return b
		}
		want := bytes()
		for range 5 {
			require.Equal(rt, want, bytes())
		}
	})
}

// TestEnvoyTakesWhatPassesTheGate has Envoy load endpoints of all kinds, under the load balancer
// that minds weights most.
func TestEnvoyTakesWhatPassesTheGate(t *testing.T) {
	group := endpoint.Group(endpoint.GroupInput{Locality: model.Locality{Region: "r"}})
	inputs := rapid.Custom(drawInput)
	for seed := range 200 {
		e, err := endpoint.Endpoint(inputs.Example(seed))
		require.NoError(t, err)
		group.LbEndpoints = append(group.LbEndpoints, e)
	}
	assignment := endpoint.Assignment(endpoint.AssignmentInput{Cluster: "all"})
	assignment.Endpoints = []*endpointv3.LocalityLbEndpoints{group}
	translatetest.RequireValid(t, &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{{
		Name: "all", LoadAssignment: assignment, LbPolicy: clusterv3.Cluster_RING_HASH,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
	}}})
}
