package incluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"
)

// The types that Istio's pilot-agent asks for beside those of its Envoy, once Envoy asks for
// listeners.
const (
	nameTable   = "type.googleapis.com/istio.networking.nds.v1.NameTable"
	proxyConfig = "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig"
	health      = "type.googleapis.com/istio.v1.HealthInformation"
)

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// pilotAgent says what Istio's pilot-agent says, message by message, as one of release 1.31 was
// seen to do (docs/reference/pilot-agent.md).
type pilotAgent struct {
	roots   *x509.CertPool
	address string
	token   string
	key     *ecdsa.PrivateKey
}

func (c *cluster) newPilotAgent(t *testing.T, r *replica) *pilotAgent {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &pilotAgent{
		roots: c.roots(t), address: fmt.Sprintf("127.0.0.1:%d", r.ports["secure-xds"]),
		token: c.workloadToken(t, "default"), key: key,
	}
}

// dial connects as the agent does: it knows the control plane by the roots of its namespace. With a
// certificate of its own (PROV_CERT) it sends no token.
func (a *pilotAgent) dial(t *testing.T, own ...tls.Certificate) (*grpc.ClientConn, context.Context) {
	conn, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: a.roots, ServerName: "istiod.istio-system.svc", MinVersion: tls.VersionTLS12, Certificates: own,
	})))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx = metadata.AppendToOutgoingContext(ctx, "ClusterID", "Kubernetes")
	if len(own) == 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+a.token)
	}
	return conn, ctx
}

// certified asks for a certificate. The agent sends an empty CertSigner where it has none.
func (a *pilotAgent) certified(t *testing.T) tls.Certificate {
	conn, ctx := a.dial(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{{
		Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/default",
	}}}, a.key)
	require.NoError(t, err)
	answer, err := securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&securityv1.IstioCertificateRequest{
			Csr:              string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
			ValidityDuration: 24 * 3600,
			Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
				"CertSigner": structpb.NewStringValue(""),
			}},
		})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(answer.GetCertChain()), 2, "the agent takes the last one as the root")
	var pair tls.Certificate
	for _, text := range answer.GetCertChain() {
		block, _ := pem.Decode([]byte(text))
		pair.Certificate = append(pair.Certificate, block.Bytes)
	}
	pair.PrivateKey = a.key
	return pair
}

// node is what the agent writes into Envoy's bootstrap.
func (a *pilotAgent) node(t *testing.T) *corev3.Node {
	says, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "default", "SERVICE_ACCOUNT": "default", "NAME": "web-1", "CLUSTER_ID": "Kubernetes",
		"MESH_ID": "cluster.local", "INSTANCE_IPS": "10.9.0.2", "INTERCEPTION_MODE": "REDIRECT",
		"ISTIO_VERSION": "1.31.0", "NODE_NAME": "node", "WORKLOAD_NAME": "web", "DNS_CAPTURE": "true",
		"LABELS": map[string]any{"app": "web"}, "PROXY_CONFIG": map[string]any{"statusPort": 15020.0},
		"ENVOY_STATUS_PORT": 15021.0, "ENVOY_PROMETHEUS_PORT": 15090.0, "PILOT_SAN": []any{"istiod.istio-system.svc"},
	})
	require.NoError(t, err)
	return &corev3.Node{Id: "sidecar~10.9.0.2~web-1.default~default.svc.cluster.local", Metadata: says}
}

// pilotAgentIsServed holds the conversations that keep an unmodified pilot-agent ready: its
// certificate, its delta stream with the subscriptions of its own, the same as state of the world,
// and a stream that its certificate alone opens.
func (c *cluster) pilotAgentIsServed(t *testing.T, r *replica) {
	a := c.newPilotAgent(t, r)
	pair := a.certified(t)
	a.talksDelta(t, c)
	a.talksStateOfTheWorld(t)

	conn, ctx := a.dial(t, pair)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: a.node(t), TypeUrl: clusterType}))
	answer, err := stream.Recv()
	require.NoError(t, err, r.said())
	require.Equal(t, clusterType, answer.GetTypeUrl())
}

// wantsTokens: to a replica that does not trust its loopback address a proxy there has to prove who
// it is, as anywhere else.
func (c *cluster) wantsTokens(t *testing.T, r *replica) {
	a := c.newPilotAgent(t, r)
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", r.ports["xds"]),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ask := func(ctx context.Context) error {
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		require.NoError(t, err)
		_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: a.node(t), TypeUrl: clusterType})
		_, err = stream.Recv()
		return err
	}
	require.Equal(t, codes.Unauthenticated, status.Code(ask(ctx)))
	require.NoError(t, ask(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+a.token)), r.said())
}

func (a *pilotAgent) talksDelta(t *testing.T, c *cluster) {
	conn, ctx := a.dial(t)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	say := func(typ, nonce string, names ...string) {
		request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ, ResponseNonce: nonce, ResourceNamesSubscribe: names}
		if typ == clusterType && nonce == "" {
			request.Node = a.node(t) // it is in the first request alone
		}
		require.NoError(t, stream.Send(request))
	}
	answers := &inbox[*discoveryv3.DeltaDiscoveryResponse]{next: func() *discoveryv3.DeltaDiscoveryResponse {
		answer, err := stream.Recv()
		require.NoError(t, err)
		say(answer.GetTypeUrl(), answer.GetNonce())
		return answer
	}}
	hear := answers.take
	say(clusterType, "")
	var names []string
	for _, cluster := range hear(clusterType).GetResources() {
		names = append(names, cluster.GetName())
	}
	const called = "outbound|443||kubernetes.default.svc.cluster.local"
	require.Contains(t, names, called)
	say(endpointType, "", called)
	require.Len(t, hear(endpointType).GetResources(), 1)
	say(listenerType, "")
	for _, own := range []string{nameTable, proxyConfig, health} {
		say(own, "")
	}
	require.NotEmpty(t, hear(listenerType).GetResources())
	require.NotEmpty(t, hear(nameTable).GetResources(), "the agent is not ready without one")
	require.Empty(t, hear(proxyConfig).GetResources())
	say(routeType, "", "80")
	hear(routeType)
	c.apply(t, `{apiVersion: v1, kind: Service, metadata: {name: late, namespace: default}, `+
		`spec: {selector: {app: late}, ports: [{name: http, port: 80}]}}`)
	for {
		for _, cluster := range hear(clusterType).GetResources() {
			if cluster.GetName() == "outbound|80||late.default.svc.cluster.local" {
				return
			}
		}
	}
}

// talksStateOfTheWorld is what an agent says with ISTIO_DELTA_XDS=false.
func (a *pilotAgent) talksStateOfTheWorld(t *testing.T) {
	conn, ctx := a.dial(t)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	require.NoError(t, err)
	say := func(typ, nonce, version string) {
		request := &discoveryv3.DiscoveryRequest{TypeUrl: typ, ResponseNonce: nonce, VersionInfo: version}
		if typ == clusterType && nonce == "" {
			request.Node = a.node(t)
		}
		require.NoError(t, stream.Send(request))
	}
	answers := &inbox[*discoveryv3.DiscoveryResponse]{next: func() *discoveryv3.DiscoveryResponse {
		answer, err := stream.Recv()
		require.NoError(t, err)
		say(answer.GetTypeUrl(), answer.GetNonce(), answer.GetVersionInfo())
		return answer
	}}
	hear := answers.take
	say(clusterType, "", "")
	require.NotEmpty(t, hear(clusterType).GetResources())
	for _, typ := range []string{listenerType, nameTable, proxyConfig, health} {
		say(typ, "", "")
	}
	require.NotEmpty(t, hear(listenerType).GetResources())
	require.NotEmpty(t, hear(nameTable).GetResources(), "the agent is not ready without one")
	require.Empty(t, hear(proxyConfig).GetResources())
}

// inbox keeps answers of other types than the one that is awaited, since their order is not
// promised.
type inbox[A interface{ GetTypeUrl() string }] struct {
	next func() A // receives an answer and acknowledges it
	kept []A
}

// take returns the oldest answer of a type, and waits for one if there is none.
func (i *inbox[A]) take(typ string) A {
	isOfType := func(answer A) bool { return answer.GetTypeUrl() == typ }
	for !slices.ContainsFunc(i.kept, isOfType) {
		i.kept = append(i.kept, i.next())
	}
	at := slices.IndexFunc(i.kept, isOfType)
	answer := i.kept[at]
	i.kept = slices.Delete(i.kept, at, at+1)
	return answer
}
