package serve

import (
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const reviewsID = "sidecar~127.0.0.2~reviews-v1-0.default~default.svc.cluster.local"

func metadataOf(t testing.TB, fields map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	require.NoError(t, err)
	return s
}

func TestParseNode(t *testing.T) {
	meta := metadataOf(t, map[string]any{
		"NAMESPACE":         "default",
		"LABELS":            map[string]any{"app": "reviews", "version": "v1"},
		"SERVICE_ACCOUNT":   "bookinfo-reviews",
		"CLUSTER_ID":        "Kubernetes",
		"INTERCEPTION_MODE": "NONE",
		"HTTP_PROXY_PORT":   "15007",
		"ISTIO_VERSION":     "1.31.1",
		"INSTANCE_IPS":      "127.0.0.2,::1",
		"PROXY_CONFIG": map[string]any{"concurrency": 2, "gatewayTopology": map[string]any{
			"numTrustedProxies": 2, "forwardClientCertDetails": "SANITIZE", "proxyProtocol": map[string]any{},
		}},
		"HTTP10":                 "1",
		"DNS_CAPTURE":            true,
		"ENVOY_STATUS_PORT":      15021,
		"SOMETHING_OF_THEIRS":    []any{"kept"},
		"ANNOTATIONS":            map[string]any{"a": "b"},
		"REQUESTED_NETWORK_VIEW": []any{"net-1"},
	})
	n, err := ParseNode(&corev3.Node{
		Id: reviewsID, Cluster: "reviews.default", UserAgentName: "envoy", Metadata: meta,
		Locality: &corev3.Locality{Region: "r1", Zone: "z1"},
	})
	require.NoError(t, err)
	require.Equal(t, &Node{
		ID: reviewsID, Type: Sidecar, Address: netip.MustParseAddr("127.0.0.2"),
		Name: "reviews-v1-0.default", DNSDomain: "default.svc.cluster.local",
		Pod: "reviews-v1-0", Namespace: "default",
		Cluster: "reviews.default", UserAgent: "envoy", Locality: Locality{Region: "r1", Zone: "z1"},
		Metadata: Metadata{
			Namespace: "default", Labels: map[string]string{"app": "reviews", "version": "v1"},
			ServiceAccount: "bookinfo-reviews", ClusterID: "Kubernetes",
			InstanceIPs:      []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("::1")},
			IstioVersion:     "1.31.1",
			InterceptionMode: None, HTTPProxyPort: 15007, HTTP10: true, DNSCapture: true, EnvoyStatusPort: 15021,
			raw: n.Metadata.raw,
		},
	}, n)
	require.True(t, proto.Equal(meta, n.Metadata.Raw()))
	require.True(t, n.Metadata.HasAgent())
	topology, err := n.Metadata.GatewayTopology()
	require.NoError(t, err)
	require.Equal(t, &Topology{TrustedProxies: 2, ClientCert: "SANITIZE", ProxyProtocol: true}, topology)
}

func TestGatewayTopologyErrorsSayWhatWouldBeRight(t *testing.T) {
	for want, config := range map[string]any{
		"PROXY_CONFIG.gatewayTopology.numTrustedProxies = -1: want a number of proxies": map[string]any{
			"gatewayTopology": map[string]any{"numTrustedProxies": -1},
		},
		`PROXY_CONFIG.gatewayTopology = "two": want an object`: map[string]any{"gatewayTopology": "two"},
	} {
		n, err := ParseNode(&corev3.Node{
			Id: "router~127.0.0.2~a.b~b.svc", Metadata: metadataOf(t, map[string]any{"PROXY_CONFIG": config}),
		})
		require.NoError(t, err)
		_, err = n.Metadata.GatewayTopology()
		require.EqualError(t, err, "metadata "+want)
	}
	topology, err := (&Metadata{}).GatewayTopology()
	require.NoError(t, err)
	require.Nil(t, topology)
}

func TestParseNodeDefaults(t *testing.T) {
	n, err := ParseNode(&corev3.Node{Id: "router~127.0.0.9~ingress-0.infra~infra.svc.cluster.local"})
	require.NoError(t, err)
	require.Equal(t, "infra", n.Namespace, "the domain's first label")
	require.Equal(t, "ingress-0", n.Pod)
	require.Equal(t, Redirect, n.Metadata.InterceptionMode)
	require.Nil(t, n.Metadata.Raw())
}

func TestParseNodeErrorsSayWhatWouldBeRight(t *testing.T) {
	for name, c := range map[string]struct {
		id   string
		meta map[string]any
		want string
	}{
		"no id":     {"", nil, `the stream's first request has no node id; ` + nodeIDForm},
		"not an id": {"reviews", nil, `node id "reviews" has 1 fields between ~; ` + nodeIDForm},
		"type": {"car~127.0.0.2~a.b~b.svc", nil,
			`node id "car~127.0.0.2~a.b~b.svc": type "car" does not exist; ` +
				`want one of sidecar, router, waypoint, ztunnel, agentgateway`},
		"address": {"sidecar~localhost~a.b~b.svc", nil,
			`node id "sidecar~localhost~a.b~b.svc": "localhost" is not an IP address; ` + nodeIDForm},
		"pod": {"sidecar~127.0.0.2~~b.svc", nil,
			`node id "sidecar~127.0.0.2~~b.svc": the pod's name is empty; ` + nodeIDForm},
		"namespace": {"sidecar~127.0.0.2~a.b~", nil,
			`node "sidecar~127.0.0.2~a.b~" has no namespace: metadata NAMESPACE is not set, and the id's domain is empty`},
		"labels": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"LABELS": "app=a"},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata LABELS = "app=a": want an object`},
		"label value": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"LABELS": map[string]any{"app": 1}},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata LABELS = {"app":1}: want an object of strings`},
		"port": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"HTTP_PROXY_PORT": "70000"},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata HTTP_PROXY_PORT = "70000": want a port from 1 to 65535`},
		"flag": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"HTTP10": "yes"},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata HTTP10 = "yes": want true or false`},
		"mode": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"INTERCEPTION_MODE": "none"},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata INTERCEPTION_MODE = "none": want REDIRECT, TPROXY or NONE`},
		"addresses": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"INSTANCE_IPS": "127.0.0.2,me"},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata INSTANCE_IPS = "127.0.0.2,me": want IP addresses separated by commas`},
		"text": {"sidecar~127.0.0.2~a.b~b.svc", map[string]any{"NAMESPACE": []any{"b"}},
			`node "sidecar~127.0.0.2~a.b~b.svc": metadata NAMESPACE = ["b"]: want a string`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseNode(&corev3.Node{Id: c.id, Metadata: metadataOf(t, c.meta)})
			require.EqualError(t, err, c.want)
		})
	}
}

func TestAuthorize(t *testing.T) {
	node := func(name, namespace, sa string) *Node {
		return &Node{ID: "id", Name: name, Namespace: namespace, Metadata: Metadata{ServiceAccount: sa}}
	}
	id := Identity{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "reviews"}
	require.NoError(t, authorize(node("a.default", "default", "reviews"), id))
	require.NoError(t, authorize(node("a.default", "default", ""), id))
	require.NoError(t, authorize(node("a.other", "other", "x"), Identity{}), "nobody may claim anything")
	require.EqualError(t, authorize(node("a.default", "other", "reviews"), id),
		`node "id" claims namespace "other", but its identity is spiffe://cluster.local/ns/default/sa/reviews`)
	require.EqualError(t, authorize(node("a.other", "default", "reviews"), id),
		`node "id": the third field of its id must end in ".default", `+
			`as its identity is spiffe://cluster.local/ns/default/sa/reviews`)
	require.EqualError(t, authorize(node("a.default", "default", "ratings"), id),
		`node "id" claims service account "ratings", but its identity is spiffe://cluster.local/ns/default/sa/reviews`)
}

func FuzzParseNode(f *testing.F) {
	seed := func(n *corev3.Node) {
		b, err := proto.Marshal(n)
		require.NoError(f, err)
		f.Add(b)
	}
	seed(&corev3.Node{Id: reviewsID, Metadata: metadataOf(f, map[string]any{
		"LABELS": map[string]any{"a": "b"}, "INSTANCE_IPS": "127.0.0.2", "HTTP_PROXY_PORT": 1.5, "HTTP10": nil,
	})})
	seed(&corev3.Node{Id: "~~~"})
	f.Fuzz(func(t *testing.T, b []byte) {
		var raw corev3.Node
		if proto.Unmarshal(b, &raw) != nil {
			return
		}
		n, err := ParseNode(&raw)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, n.Type.isKnown())
		require.True(t, n.Address.IsValid())
		require.NotEmpty(t, n.Namespace)
		require.NotEmpty(t, n.Name)
	})
}
