package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

const secretNamespace = "shop"

// secretRig has a Gateway that selects all workloads and has a server with a Secret, a Pod "gw"
// that is a gateway and a Pod "app" that is not. Both run as the account "own".
func secretRig(t *testing.T) *rig {
	pair := certs.NewAuthority(t, "test").Issue(t, "shop.test")
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: secretNamespace, Name: name}
	}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{ServiceAccountName: "own"}}
	}
	gateway := pod("gw")
	gateway.Spec.Containers = []corev1.Container{{Name: "istio-proxy", Args: []string{"proxy", "router", "--domain"}}}
	change := func(kind kinds.Kind, o metav1.Object) source.Change {
		return source.Change{
			Key: source.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o,
		}
	}
	return newRig(t, []source.Change{
		change(kinds.Pod, gateway), change(kinds.Pod, pod("app")),
		change(kinds.Secret, &corev1.Secret{
			ObjectMeta: meta("own"), Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": []byte(pair.Certificate), "tls.key": []byte(pair.Key)},
		}),
		change(kinds.Gateway, &networkingv1.Gateway{
			ObjectMeta: meta("way-in"), Spec: networking.Gateway{Servers: []*networking.Server{{
				Port: &networking.Port{Number: 8443, Name: "https", Protocol: "HTTPS"}, Hosts: []string{"shop.test"},
				Tls: &networking.ServerTLSSettings{
					Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: "own",
				},
			}}},
		}),
	})
}

func (r *rig) connectAs(pod string, id serve.Identity) (*fanout.Conn, error) {
	node := &serve.Node{
		Type: serve.Router, Address: netip.MustParseAddr("10.0.0.1"), Pod: pod, Namespace: secretNamespace,
	}
	return r.pipeline.registry.Connect(r.ctx, node, id)
}

// secretsOf returns how many secrets a connected proxy gets, and how many listeners.
func secretsOf(t *testing.T, c *fanout.Conn) (secrets, listeners int) {
	t.Helper()
	p, ok := c.Take()
	require.True(t, ok)
	require.Equal(t, p.State.Set(resource.Secret).Len() > 0, p.Overlay.Trusted)
	return p.State.Set(resource.Secret).Len(), p.State.Set(resource.Listener).Len()
}

// TestSecretsGoOnlyToProvenGateways: whoever calls itself a router gets no Secrets by that.
func TestSecretsGoOnlyToProvenGateways(t *testing.T) {
	proven := func(pod, account string) serve.Identity {
		return serve.Identity{Namespace: secretNamespace, ServiceAccount: account, Pod: pod}
	}
	may := func(_ context.Context, namespace, account string) (bool, error) {
		return namespace == secretNamespace && account == "own", nil
	}
	mayNot := func(context.Context, string, string) (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		pod  string
		id   serve.Identity
		ask  MayReadSecrets
		want bool
		log  string
	}{
		"a gateway whose account may":  {pod: "gw", id: proven("gw", "own"), ask: may, want: true},
		"in a local mesh":              {pod: "gw", id: proven("gw", "own"), want: true},
		"a sidecar that says router":   {pod: "app", id: proven("app", "own"), ask: may, log: "its Pod is no gateway"},
		"the same in a local mesh":     {pod: "app", id: proven("app", "own"), log: "its Pod is no gateway"},
		"without the right":            {pod: "gw", id: proven("gw", "own"), ask: mayNot, log: "may not list secrets"},
		"without a token":              {pod: "gw", ask: may, log: "without a token"},
		"a token of no Pod":            {pod: "gw", id: proven("", "own"), ask: may, log: "not bound to a Pod"},
		"the account is not the Pod's": {pod: "gw", id: proven("gw", "other"), log: "not that of its Pod's"},
		"a Pod that is not known":      {pod: "new", id: proven("new", "own"), ask: may, log: "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			r, log := secretRig(t), &bytes.Buffer{}
			r.pipeline.registry.secrets.ask = c.ask
			r.pipeline.registry.secrets.log = slog.New(slog.NewTextHandler(log, nil))
			conn, err := r.connectAs(c.pod, c.id)
			require.NoError(t, err)
			secrets, listeners := secretsOf(t, conn)
			require.Contains(t, log.String(), c.log)
			if c.want {
				require.Equal(t, [2]int{1, 1}, [2]int{secrets, listeners})
				require.Empty(t, log.String())
				require.Empty(t, r.pipeline.Problems())
				return
			}
			require.Equal(t, [2]int{}, [2]int{secrets, listeners}, "the server is closed")
		})
	}
}

// A Gateway says that some of its proxies may not have its Secrets.
func TestGatewayReportsProxiesWithoutSecrets(t *testing.T) {
	r := secretRig(t)
	_, err := r.connectAs("app", serve.Identity{Namespace: secretNamespace, ServiceAccount: "own", Pod: "app"})
	require.NoError(t, err)
	r.deliver(source.Change{ // the compiler reports with the next generation
		Key:    source.Key{Kind: kinds.Pod, Namespace: "other", Name: "later"},
		Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "later"}},
	})
	problems := r.pipeline.Problems()
	require.Len(t, problems, 1)
	require.Equal(t, source.Warning, problems[0].Severity)
	require.Equal(t, kinds.Gateway, problems[0].Object.Kind)
	require.Contains(t, problems[0].Message, "may not have its Secrets")
	require.Contains(t, problems[0].Want, "list secrets")
}

// A proxy may connect before its Pod is known.
func TestSecretsComeWithThePod(t *testing.T) {
	r := secretRig(t)
	conn, err := r.connectAs("new", serve.Identity{Namespace: secretNamespace, ServiceAccount: "own", Pod: "new"})
	require.NoError(t, err)
	secrets, listeners := secretsOf(t, conn)
	require.Equal(t, [2]int{}, [2]int{secrets, listeners})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: secretNamespace, Name: "new",
			Annotations: map[string]string{kinds.TemplatesAnnotation: "gateway"},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "own"},
	}
	r.deliver(source.Change{Key: source.Key{Kind: kinds.Pod, Namespace: secretNamespace, Name: "new"}, Object: pod})
	secrets, listeners = secretsOf(t, conn)
	require.Equal(t, [2]int{1, 1}, [2]int{secrets, listeners})
}

func TestConnectionWaitsForAnAnswerAboutRights(t *testing.T) {
	r := secretRig(t)
	r.pipeline.registry.secrets.ask = func(context.Context, string, string) (bool, error) {
		return false, errors.New("the API server is away")
	}
	_, err := r.connectAs("gw", serve.Identity{Namespace: secretNamespace, ServiceAccount: "own", Pod: "gw"})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "the API server is away")
}

// Rights that are given or taken end the streams of those that they belong to, and nobody else's.
func TestChangedRightsEndStreams(t *testing.T) {
	r := secretRig(t)
	access, rights := r.pipeline.registry.secrets, map[string]bool{"own": true}
	var away error
	access.ask = func(_ context.Context, _, account string) (bool, error) { return rights[account], away }
	var ended []string
	access.end = func(namespace, account string) { ended = append(ended, namespace+"/"+account) }
	conn, err := r.connectAs("gw", serve.Identity{Namespace: secretNamespace, ServiceAccount: "own", Pod: "gw"})
	require.NoError(t, err)
	_, err = r.connectAs("other", serve.Identity{Namespace: secretNamespace, ServiceAccount: "other", Pod: "other"})
	require.NoError(t, err)
	access.recheck(t.Context())
	require.Empty(t, ended)
	rights["own"], away = false, errors.New("away")
	access.recheck(t.Context())
	require.Empty(t, ended, "nobody can tell")
	away = nil
	access.recheck(t.Context())
	require.Equal(t, []string{"shop/own"}, ended)
	rights["other"] = true
	ended = nil
	conn.Close()
	access.recheck(t.Context())
	require.Equal(t, []string{"shop/other"}, ended, "who has left is not asked about")
}

// The class of a proven Pod is that in which Connect puts it, with the credentials that its proof
// gives it.
func TestClassOfAProvenPodIsMadeOnce(t *testing.T) {
	r := secretRig(t)
	registry := r.pipeline.registry
	for pod, kind := range map[string]serve.NodeType{"gw": serve.Router, "app": serve.Sidecar} {
		node := &serve.Node{
			Type: kind, Address: netip.MustParseAddr("10.0.0.1"), Pod: pod, Namespace: secretNamespace,
		}
		id := serve.Identity{Namespace: secretNamespace, ServiceAccount: "own", Pod: pod}
		require.True(t, registry.makesClass(t.Context(), node, id), pod)
		conn, err := registry.Connect(t.Context(), node, id)
		require.NoError(t, err)
		defer conn.Close()
		require.False(t, registry.makesClass(t.Context(), node, id), pod)
	}
}
