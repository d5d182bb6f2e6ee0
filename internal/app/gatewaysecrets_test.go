package app

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// deployedRig has a Gateway "edge" of the Gateway API in the namespace shop, with Secrets of its
// own namespace ("own") and of others ("granted/a", and "closed/b" without a grant), a Gateway of
// Istio's that selects every workload and names the Secret "other", and the Pod that was deployed
// for edge.
type deployedRig struct {
	*rig
	authority *certs.Authority
}

func newDeployedRig(t *testing.T) *deployedRig {
	r := &deployedRig{authority: certs.NewAuthority(t, "test")}
	server := &networking.Server{
		Port: &networking.Port{Number: 9443, Name: "https", Protocol: "HTTPS"}, Hosts: []string{"other.test"},
		Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: "other"},
	}
	r.rig = newRig(t, []source.Change{
		r.secret(t, secretNamespace, "own"), r.secret(t, secretNamespace, "other"),
		r.secret(t, secretNamespace, "idle"),
		r.secret(t, "granted", "a"), r.secret(t, "closed", "b"),
		changeOf(kinds.Gateway, &networkingv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "all"},
			Spec:       networking.Gateway{Servers: []*networking.Server{server}},
		}),
		changeOf(kinds.ReferenceGrant, &gatewayv1.ReferenceGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "granted", Name: "edge"},
			Spec: gatewayv1.ReferenceGrantSpec{
				From: []gatewayv1.ReferenceGrantFrom{
					{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: secretNamespace},
				},
				To: []gatewayv1.ReferenceGrantTo{{Kind: "Secret"}},
			},
		}),
		changeOf(kinds.KubernetesGateway, edgeGateway("istio")),
		changeOf(kinds.Pod, edgePod("edge-istio", "edge")),
	})
	r.pipeline.registry.secrets.ask = func(context.Context, string, string) (bool, error) { return false, nil }
	return r
}

func changeOf(kind kinds.Kind, o metav1.Object) source.Change {
	return source.Change{Key: source.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o}
}

func (r *deployedRig) secret(t *testing.T, namespace, name string) source.Change {
	pair := r.authority.Issue(t, name+".test")
	return changeOf(kinds.Secret, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": []byte(pair.Certificate), "tls.key": []byte(pair.Key)},
	})
}

func edgeGateway(class string) *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{
		Namespace: secretNamespace, Name: "edge", UID: types.UID("edge"),
	}}
	g.Spec.GatewayClassName = gatewayv1.ObjectName(class)
	for i, secret := range [][2]string{{secretNamespace, "own"}, {"granted", "a"}, {"closed", "b"}} {
		namespace := gatewayv1.Namespace(secret[0])
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{
			Name: gatewayv1.SectionName(secret[1]), Port: gatewayv1.PortNumber(8443 + i),
			Protocol: gatewayv1.HTTPSProtocolType,
			TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{
				{Namespace: &namespace, Name: gatewayv1.ObjectName(secret[1])},
			}},
		})
	}
	return g
}

func edgePod(account, gateway string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secretNamespace, Name: "edge-0",
			Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": gateway},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "istio-proxy", Args: []string{"proxy", "router"}}},
		},
	}
}

// connect connects the Pod as an account.
func (r *deployedRig) connect(t *testing.T, account string) *fanout.Conn {
	node := &serve.Node{
		Type: serve.Router, Address: netip.MustParseAddr("10.0.0.1"), Pod: "edge-0", Namespace: secretNamespace,
	}
	id := serve.Identity{Namespace: secretNamespace, ServiceAccount: account, Pod: "edge-0"}
	conn, err := r.pipeline.registry.Connect(r.ctx, node, id)
	require.NoError(t, err)
	return conn
}

func secretNames(t *testing.T, c *fanout.Conn) []string {
	t.Helper()
	p, ok := c.Take()
	require.True(t, ok)
	names := p.State.Set(resource.Secret).Names()
	slices.Sort(names)
	return names
}

// A gateway whose account may read no Secrets gets those that the listeners of its own Gateway
// name, of other namespaces with a grant, and no others.
func TestDeployedGatewayGetsTheSecretsOfItsListeners(t *testing.T) {
	r := newDeployedRig(t)
	conn := r.connect(t, "edge-istio")
	require.Equal(t, []string{"kubernetes://granted/a", "kubernetes://own"}, secretNames(t, conn))

	r.deliver(source.Change{Key: source.Key{Kind: kinds.ReferenceGrant, Namespace: "granted", Name: "edge"}})
	require.Equal(t, []string{"kubernetes://own"}, secretNames(t, conn), "the grant is gone")

	r.deliver(changeOf(kinds.KubernetesGateway, edgeGateway("lateen")))
	require.Empty(t, secretNames(t, conn), "the Gateway is deployed with another account")
	r.deliver(changeOf(kinds.KubernetesGateway, edgeGateway("istio")))
	require.Equal(t, []string{"kubernetes://own"}, secretNames(t, conn))

	byHand := edgeGateway("istio")
	kind := gatewayv1.HostnameAddressType
	byHand.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: "edge.shop.svc.cluster.local"}}
	r.deliver(changeOf(kinds.KubernetesGateway, byHand))
	require.Empty(t, secretNames(t, conn), "nothing is deployed for the Gateway")

	r.deliver(changeOf(kinds.KubernetesGateway, edgeGateway("istio")))
	r.deliver(source.Change{Key: source.Key{Kind: kinds.KubernetesGateway, Namespace: secretNamespace, Name: "edge"}})
	require.Empty(t, secretNames(t, conn), "the Gateway is gone")
}

// Nobody gets the Secrets of a Gateway by its labels alone.
func TestLabelsOfAGatewayGiveNoSecrets(t *testing.T) {
	r := newDeployedRig(t)
	for _, pod := range []*corev1.Pod{
		edgePod("app", "edge"), edgePod("edge-istio", "another"), edgePod("edge-lateen", "edge"),
	} {
		r.deliver(changeOf(kinds.Pod, pod))
		conn := r.connect(t, pod.Spec.ServiceAccountName)
		require.Empty(t, secretNames(t, conn))
		conn.Close()
	}
	r.deliver(changeOf(kinds.Pod, edgePod("edge-istio", "edge")))
	conn := r.connect(t, "app")
	require.Empty(t, secretNames(t, conn), "the token is another account's")
}
