package apiserver

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestClaimedRouterGetsNoSecrets: a sidecar's Pod that a Gateway without a selector selects says
// that it is a router. A gateway's Pod gets the Secret if its account has the right; its stream
// ends with the Pod.
func TestClaimedRouterGetsNoSecrets(t *testing.T) {
	m := start(t)
	pair := certs.NewAuthority(t, "test").Issue(t, "shop.test")
	_, err := m.core.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, Type: corev1.SecretTypeTLS, StringData: pairOf(pair),
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var wayIn networkingv1.Gateway
	read(t, &wayIn, `
metadata: {name: way-in}
spec:
  servers:
  - {port: {number: 8443, name: https, protocol: HTTPS}, hosts: [shop.test], tls: {mode: SIMPLE, credentialName: own}}
`)
	_, err = m.istio.NetworkingV1().Gateways(namespace).Create(t.Context(), &wayIn, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, account := range []string{"app", "gateway", "poor"} {
		_, err := m.core.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	m.letReadSecrets(namespace, "app")
	m.letReadSecrets(namespace, "gateway")
	app, gateway := m.proxyPod("app", "10.2.1.1", "sidecar"), m.proxyPod("gateway", "10.2.1.2", "router")
	poor := m.proxyPod("poor", "10.2.1.3", "router")
	m.marker()
	_, listeners := m.router(app, "app")
	require.Empty(t, listeners, "its Pod is no gateway")
	_, listeners = m.router(poor, "poor")
	require.Empty(t, listeners, "its account may not read Secrets")
	stream, listeners := m.router(gateway, "gateway")
	require.Len(t, listeners, 1)
	now := int64(0)
	err = m.core.CoreV1().Pods(namespace).Delete(t.Context(), "gateway", metav1.DeleteOptions{GracePeriodSeconds: &now})
	require.NoError(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.Canceled, status.Code(err), err)
}

// proxyPod runs a Pod whose proxy has a role, as the account of its name. It returns its token.
func (m *mesh) proxyPod(name, address, role string) (token string) {
	m.t.Helper()
	pod := m.api.RunPod(m.t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{ServiceAccountName: name, Containers: []corev1.Container{
			{Name: "istio-proxy", Image: "envoy", Args: []string{"proxy", role}},
		}},
	}, address)
	issued, err := m.core.CoreV1().ServiceAccounts(namespace).CreateToken(m.t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{"istio-ca"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: "Pod", APIVersion: "v1", Name: name, UID: pod.UID,
			},
		}}, metav1.CreateOptions{})
	require.NoError(m.t, err)
	return issued.Status.Token
}

type deltaStream = grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]

// router opens a stream that says it is a router's, and returns the listeners that it gets.
func (m *mesh) router(token, pod string) (s deltaStream, listeners []string) {
	m.t.Helper()
	conn, err := grpc.NewClient(m.lateen.XDS, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = conn.Close() })
	ctx := metadata.AppendToOutgoingContext(m.t.Context(), "authorization", "Bearer "+token)
	s, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(m.t, err)
	require.NoError(m.t, s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:    &corev3.Node{Id: "router~10.2.1.9~" + pod + "." + namespace + "~" + namespace + ".svc.cluster.local"},
		TypeUrl: resource.Listener.URL(),
	}))
	r, err := s.Recv()
	require.NoError(m.t, err)
	for _, l := range r.GetResources() {
		listeners = append(listeners, l.GetName())
	}
	return s, listeners
}
