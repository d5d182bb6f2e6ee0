package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	istioclient "istio.io/client-go/pkg/clientset/versioned"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// uri is the identity of the Pod's service account.
const uri = "spiffe://cluster.local/ns/default/sa/edge"

// cluster is a real API server.
type cluster struct {
	t     *testing.T
	api   *kubeapi.Server
	core  kubernetes.Interface
	istio istioclient.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, api: kubeapi.Start(t, kubeapi.Options{})}
	c.api.InstallIstioCRDs(t)
	var err error
	c.core, err = kubernetes.NewForConfig(c.api.Config())
	require.NoError(t, err)
	c.istio, err = istioclient.NewForConfig(c.api.Config())
	require.NoError(t, err)
	_, err = c.core.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "istio-system"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return c
}

// run creates the Pod, and writes what the kubelet mounts: a token and the mesh's roots.
func (c *cluster) run(p *pod) {
	c.t.Helper()
	c.admit(p)
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {
		maps := c.core.CoreV1().ConfigMaps("default")
		roots, err := maps.Get(c.t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		require.NoError(t, err)
		p.write(rootFile, roots.Data["root-cert.pem"])
	}, patience, 50*time.Millisecond)
}

// rootFile has the roots of the mesh.
const rootFile = "var/run/secrets/istio/root-cert.pem"

// admit creates the Pod, and writes its token.
func (c *cluster) admit(p *pod) {
	c.t.Helper()
	core, ctx := c.core.CoreV1(), c.t.Context()
	_, err := core.ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	c.api.Node(c.t, "node", nil)
	created := c.api.RunPod(c.t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Namespace: "default", Labels: map[string]string{"app": "edge"}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "edge", NodeName: "node",
			Containers: []corev1.Container{{Name: "istio-proxy", Image: "lateen:test"}},
		},
	}, "10.0.0.9")
	seconds := int64(time.Hour.Seconds())
	token, err := core.ServiceAccounts("default").CreateToken(ctx, "edge", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{"istio-ca"}, ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: "Pod", APIVersion: "v1", Name: created.Name, UID: created.UID,
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	p.write("var/run/secrets/tokens/istio-token", token.Status.Token)
}

// configure makes a gateway that takes callers with a certificate of the mesh alone, and sends them
// to an application.
func (c *cluster) configure(p *pod, application string) {
	c.t.Helper()
	host, port, err := net.SplitHostPort(application)
	require.NoError(c.t, err)
	var number uint32
	_, err = fmt.Sscan(port, &number)
	require.NoError(c.t, err)
	of, ctx := c.istio.NetworkingV1(), c.t.Context()
	meta := metav1.ObjectMeta{Name: "edge", Namespace: "default"}
	_, err = of.Gateways("default").Create(ctx, &networkingv1.Gateway{ObjectMeta: meta, Spec: networking.Gateway{
		Selector: map[string]string{"app": "edge"},
		Servers: []*networking.Server{{
			Port:  &networking.Port{Number: uint32(p.ports.web), Name: "https", Protocol: "HTTPS"},
			Hosts: []string{"*"},
			Tls:   &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_ISTIO_MUTUAL},
		}},
	}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = of.ServiceEntries("default").Create(ctx, &networkingv1.ServiceEntry{ObjectMeta: meta,
		Spec: networking.ServiceEntry{
			Hosts:      []string{"app.test"},
			Ports:      []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
			Resolution: networking.ServiceEntry_STATIC,
			Endpoints:  []*networking.WorkloadEntry{{Address: host, Ports: map[string]uint32{"http": number}}},
		}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = of.VirtualServices("default").Create(ctx, &networkingv1.VirtualService{ObjectMeta: meta,
		Spec: networking.VirtualService{
			Hosts: []string{"*"}, Gateways: []string{"edge"},
			Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{
				{Destination: &networking.Destination{Host: "app.test", Port: &networking.PortSelector{Number: 80}}},
			}}},
		}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// TestAgentsSpeakMutualTLS: an agent with the token of its Pod gets configuration and a certificate
// from the control plane, over TLS. Its Envoy takes callers that have one of the mesh, and nobody
// else. It stays small.
func TestAgentsSpeakMutualTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("a live test")
	}
	c, p := newCluster(t), newPod(t)
	lateen := lateenserve.Start(t, lateenserve.Options{
		Binary: binaries.lateen,
		Args:   []string{"--kubeconfig", c.api.Kubeconfig(), "--write", "--secure-xds-address", "127.0.0.1:0"},
	})
	at := lateen.Await(t, `flag=--secure-xds-address address=127\.0\.0\.1:(\d+)`)
	c.configure(p, application(t))
	c.run(p)
	p.over("localhost:"+at[1], "MUTUAL_TLS")
	p.write("certs/.keep", "")
	agent := p.run("OUTPUT_CERTS=certs")
	agent.await()

	pair, roots := p.certificate()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.Equal(t, uri, leaf.URIs[0].String())
	p.awaitCall(&pair, roots)
	require.Error(t, p.call(nil, roots), "a caller without a certificate")
	require.Less(t, residentOf(t, agent.cmd.Process.Pid), maxResident)
	require.NoError(t, agent.stop(), agent.log.String())
}

// certificate waits for what the agent writes out.
func (p *pod) certificate() (pair tls.Certificate, roots *x509.CertPool) {
	p.t.Helper()
	in := func(name string) string { return filepath.Join(p.dir, "certs", name) }
	require.EventuallyWithT(p.t, func(t *assert.CollectT) {
		var err error
		pair, err = tls.LoadX509KeyPair(in("cert-chain.pem"), in("key.pem"))
		require.NoError(t, err)
		text, err := os.ReadFile(in("root-cert.pem"))
		require.NoError(t, err)
		block, _ := pem.Decode(text)
		require.NotNil(t, block)
		roots = x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(text))
	}, patience, 20*time.Millisecond)
	return pair, roots
}

// awaitCall calls until the gateway answers: it listens once the control plane knows the objects.
func (p *pod) awaitCall(pair *tls.Certificate, roots *x509.CertPool) {
	p.t.Helper()
	require.EventuallyWithT(p.t, func(t *assert.CollectT) {
		require.NoError(t, p.call(pair, roots))
	}, patience, 20*time.Millisecond)
}

// call asks the gateway once, as a workload of the mesh would, and verifies who answers.
func (p *pod) call(pair *tls.Certificate, roots *x509.CertPool) error {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: "app.test", NextProtos: []string{"istio-http/1.1", "http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // SPIFFE names no host; it is verified below
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf := s.PeerCertificates[0]
			if len(leaf.URIs) != 1 || leaf.URIs[0].String() != uri {
				return errors.New("another identity")
			}
			_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			return err
		},
	}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", p.ports.web), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(body), "hello") {
		err = fmt.Errorf("%s %s", response.Status, body)
	}
	return err
}
