package local

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

func TestEnvoyTakesTheBootstrap(t *testing.T) {
	envoy := realenvoy.Binary(t)
	for name, role := range map[string]podRole{"sidecar": roleSidecar, "gateway": roleGateway} {
		t.Run(name, func(t *testing.T) {
			content, err := bootstrap{
				pod: &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: "shop",
						Name:      "web-1",
						Labels:    map[string]string{"istio-locality": "r.z"},
					},
					Spec: corev1.PodSpec{ServiceAccountName: "web", NodeName: nodeName},
				},
				addrs: addressesOf(9), role: role, workload: "web", xds: netip.MustParseAddrPort("127.0.0.1:15010"),
				token: "t", version: "1.31.0", sds: "/run/sds",
			}.JSON()
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "envoy.json")
			require.NoError(t, os.WriteFile(file, content, 0o600))
			args := append(Options{Envoy: envoy}.withDefaults().envoyArgs(file, 1), "--mode", "validate")
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

// emptyMesh answers each first request of a type with nothing, as a control plane that has no
// configuration.
type emptyMesh struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	seen chan metadata.MD
	node chan string
}

func (s *emptyMesh) DeltaAggregatedResources(
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.seen <- md
	for first := true; ; first = false {
		req, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if first {
			s.node <- req.GetNode().GetId()
		}
		if req.GetResponseNonce() == "" {
			if err := stream.Send(&discoveryv3.DeltaDiscoveryResponse{
				TypeUrl: req.GetTypeUrl(),
				Nonce:   "1",
			}); err != nil {
				return err
			}
		}
	}
}

// TestRealEnvoyBecomesReadyAndEnds runs a pod with a real Envoy from start to drained end.
func TestRealEnvoyBecomesReadyAndEnds(t *testing.T) {
	envoy := realenvoy.Binary(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	mesh := &emptyMesh{seen: make(chan metadata.MD, 10), node: make(chan string, 10)}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, mesh)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	asked, proxy := 0, ""
	// the control plane dies, is back, and then the Envoy is back too
	settled := func(context.Context) ([]string, error) {
		asked++
		switch asked {
		case 1:
			return nil, io.ErrUnexpectedEOF
		case 2:
			return []string{"another.default"}, nil
		}
		return []string{"another.default", proxy}, nil
	}
	tokens := NewTokens()
	change := deployment("web", 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "web" })
	m := run(t, Options{
		Envoy: envoy, XDS: listener.Addr().(*net.TCPAddr).AddrPort(), Tokens: tokens,
		Settled: settled,
	}, change)
	s := m.await(t, (*Snapshot).Ready)
	pod := s.Pods[0]
	require.Equal(t, "sidecar~"+pod.Pod.String()+"~"+pod.Name+".default~default.svc.cluster.local", <-mesh.node)
	authorization := (<-mesh.seen).Get("authorization")
	require.Len(t, authorization, 1)
	id, ok := tokens.Lookup(authorization[0][len("Bearer "):])
	require.True(t, ok)
	require.Equal(t, Identity{Namespace: "default", ServiceAccount: "web", Pod: pod.Name}, id)

	text := string(statisticsOf(t, pod))
	for _, direction := range []string{"rx", "tx"} {
		require.Regexp(t, `envoy_cluster_upstream_cx_`+direction+`_bytes_total\{cluster_name="xds-grpc"\} [1-9]`, text,
			"what it has got of the control plane, under Istio's label")
	}

	proxy = pod.Name + ".default"
	m.source.Send(context.Background(), deployment("web", 0, nil))
	m.await(t, func(s *Snapshot) bool { return len(s.Pods) == 0 })
	require.Equal(t, 3, asked, "it waits for its Envoy to be among those that know")
	_, ok = tokens.Lookup(authorization[0][len("Bearer "):])
	require.False(t, ok)
}

// statisticsOf returns what a pod's Envoy has for Prometheus.
func statisticsOf(t *testing.T, pod PodStatus) []byte {
	t.Helper()
	url := "http://" + netip.AddrPortFrom(pod.Outbound, AdminPort).String() + "/stats/prometheus"
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	return body
}
