package convert

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// readEntry converts a ServiceEntry with one endpoint, as in a cluster or as in lateen up.
func readEntry(cluster bool, resolution networking.ServiceEntry_Resolution, address string, port uint32) Result {
	in := &networkingv1.ServiceEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "e"},
		Spec: networking.ServiceEntry{
			Hosts: []string{"near.test"}, Resolution: resolution,
			Ports:     []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
			Endpoints: []*networking.WorkloadEntry{{Address: address, Ports: map[string]uint32{"http": port}}},
		},
	}
	change := source.Change{Key: source.Key{Kind: kinds.ServiceEntry, Namespace: "a", Name: "e"}, Object: in}
	return New(Options{Cluster: cluster}).Convert(change, model.DefaultMesh())
}

func TestEndpointsOnTheCallersOwnMachine(t *testing.T) {
	for address, resolution := range map[string]networking.ServiceEntry_Resolution{
		"127.0.0.1": networking.ServiceEntry_STATIC, "127.9.9.9": networking.ServiceEntry_DNS,
		"::1": networking.ServiceEntry_STATIC, "::ffff:127.0.0.1": networking.ServiceEntry_STATIC,
		"169.254.169.254": networking.ServiceEntry_STATIC, "fe80::1": networking.ServiceEntry_STATIC,
		"localhost": networking.ServiceEntry_DNS, "a.localhost": networking.ServiceEntry_DNS_ROUND_ROBIN,
		"LocalHost.": networking.ServiceEntry_DNS, "ip6-loopback": networking.ServiceEntry_DNS,
		"localhost.localdomain":     networking.ServiceEntry_DNS,
		"metadata.google.internal.": networking.ServiceEntry_DNS,
	} {
		for _, port := range []uint32{15000, 15020, 15021, 15090} {
			for _, cluster := range []bool{false, true} {
				got := readEntry(cluster, resolution, address, port)
				require.Empty(t, got.Objects[0].(*model.Service).Endpoints, "%s:%d", address, port)
				require.Equal(t, "is a port of the caller's own proxy", got.Problems[0].Message)
			}
		}
		got := readEntry(true, resolution, address, 8080)
		svc := got.Objects[0].(*model.Service)
		require.Len(t, svc.Endpoints, 1, address)
		require.True(t, svc.OwnMachine, address)
		require.Len(t, got.Problems, 1)
		require.Contains(t, got.Problems[0].Message, "gateways call none")
		got = readEntry(false, resolution, address, 8080)
		require.False(t, got.Objects[0].(*model.Service).OwnMachine, "Pods of lateen up are on loopback")
		require.Empty(t, got.Problems)
	}
	got := readEntry(true, networking.ServiceEntry_STATIC, "10.0.0.1", 15021)
	require.Empty(t, got.Problems, "another machine")
	require.False(t, got.Objects[0].(*model.Service).OwnMachine)
}

// Names that a resolver may read as the number of an address are none.
func TestNumbersAreNoNames(t *testing.T) {
	for _, name := range []string{
		"127.1", "127.0.1", "0x7f.1", "0x7f000001", "2130706433", "127.0x1", "0X7F.0x", "017700000001",
	} {
		got := readEntry(true, networking.ServiceEntry_DNS, name, 8080)
		require.Empty(t, got.Objects[0].(*model.Service).Endpoints, name)
		require.Equal(t, "ends in a number", got.Problems[0].Message, name)
	}
	for _, name := range []string{"1a", "0xyz", "1.a", "a1", "1-1"} {
		require.Empty(t, readEntry(true, networking.ServiceEntry_DNS, name, 8080).Problems, name)
	}
}

func TestWorkloadEntriesAreOnOtherMachines(t *testing.T) {
	in := &networkingv1.WorkloadEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "w"}, Spec: networking.WorkloadEntry{Address: "127.0.0.1"},
	}
	change := source.Change{Key: source.Key{Kind: kinds.WorkloadEntry, Namespace: "a", Name: "w"}, Object: in}
	require.Empty(t, New(Options{Cluster: true}).Convert(change, model.DefaultMesh()).Objects)
	require.Len(t, New(Options{}).Convert(change, model.DefaultMesh()).Objects, 1)
}

func TestIngressOfASidecarLeadsToTheApplicationAlone(t *testing.T) {
	for to, ok := range map[string]bool{
		"127.0.0.1:8080": true, "0.0.0.0:8080": true, "unix:///tmp/app.sock": true, "unix://@app": true,
		"127.0.0.1:15000": false, "127.0.0.1:15020": false, "[::1]:15000": false, "0.0.0.0:15021": false,
		"unix:///etc/istio/proxy/XDS": false, "unix:////etc/../etc/istio/proxy/XDS": false,
		"unix:///var/run/secrets/workload-spiffe-uds/socket": false,
		"unix:///proc/self/cwd/etc/istio/proxy/XDS":          false,
	} {
		in := &networkingv1.Sidecar{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"},
			Spec: networking.Sidecar{Ingress: []*networking.IstioIngressListener{{
				Port:            &networking.SidecarPort{Number: 9080, Name: "http", Protocol: "HTTP"},
				DefaultEndpoint: to,
			}}},
		}
		change := source.Change{Key: source.Key{Kind: kinds.Sidecar, Namespace: "a", Name: "s"}, Object: in}
		got := New(Options{Cluster: true}).Convert(change, model.DefaultMesh())
		require.Equal(t, ok, len(got.Problems) == 0, "%s: %v", to, got.Problems)
	}
}
