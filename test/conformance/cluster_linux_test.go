package conformance

import (
	"context"
	"log/slog"
	"maps"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/test/cluster/kubelet"
	"github.com/lateen-mesh/lateen/test/cluster/names"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	rootNamespace = "istio-system"
	// meshNamespaces begin like that. Pods of the other ones have no sidecars.
	meshNamespaces = "gateway-conformance-mesh"
	// registry is where the suite has its images.
	registry = "registry.k8s.io/gateway-api/"
)

// cluster is an API server whose Pods run as processes, with a control plane.
type cluster struct {
	api     *kubeapi.Server
	client  kubernetes.Interface
	network *podnet.Network
}

// start makes a cluster that ends with the test.
func start(t *testing.T) *cluster {
	t.Helper()
	envoy := realenvoy.Binary(t)
	c := &cluster{api: kubeapi.Start(t, kubeapi.Options{})}
	c.api.InstallIstioCRDs(t)
	c.api.InstallExperimentalGatewayAPICRDs(t)
	config := c.api.Config()
	config.QPS, config.Burst = 1000, 1000
	c.client = kubernetes.NewForConfigOrDie(config)
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: rootNamespace},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.network, err = podnet.Here()
	require.NoError(t, err)
	t.Cleanup(c.network.Close)
	lateenserve.Start(t, lateenserve.Options{
		Binary: program("lateen"),
		Args: []string{
			"--kubeconfig", c.api.Kubeconfig(), "--secure-xds-address", secureAddr().String(), "--write",
			"--proxy-drain=5s",
		},
		Env: []string{"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER=true"},
	})
	c.run(t, envoy)
	return c
}

// run starts the DNS, the kubelet and the load balancer.
func (c *cluster) run(t *testing.T, envoy string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	self, err := os.Executable()
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	factory := informers.NewSharedInformerFactory(c.client, 0)
	dns := names.New(factory)
	listener, err := c.network.Listen(0)
	require.NoError(t, err)
	node := kubelet.New(kubelet.Options{
		Client: c.client, Network: c.network, Self: self, Agent: program("lateen-agent"), Envoy: envoy,
		Discovery: secureAddr(), ServerName: "istiod." + rootNamespace + ".svc",
		Dir: filesOfPods(t), Nodes: []string{"node-a"}, Programs: programs(t, self),
		Port:       int32(netip.MustParseAddrPort(listener.Addr().String()).Port()),
		NoSidecars: func(namespace string) bool { return !strings.HasPrefix(namespace, meshNamespaces) },
		Log:        log,
	}, factory)
	server := httptest.NewUnstartedServer(node.Handler())
	_ = server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	queries, err := c.network.ListenPacket(53)
	require.NoError(t, err)
	running.Go(func() { _ = dns.Serve(queries) })
	t.Cleanup(func() { _ = queries.Close() })
	balancer := newBalancer(c.client, factory, log)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	running.Go(func() {
		if err := node.Run(ctx); err != nil {
			log.Error("the kubelet ends", "error", err)
		}
	})
	running.Go(func() { balancer.run(ctx) })
}

// secureAddr is the control plane's, as Pods know it.
func secureAddr() netip.AddrPort { return netip.AddrPortFrom(podnet.Gateway, 15012) }

// programs are what the images of the suite and of Istio's samples run. Nothing here forwards UDP,
// so the suite's DNS server only has to be there.
func programs(t *testing.T, self string) map[string]kubelet.Program {
	certificate, key := servingCertificate(t)
	all := samplePrograms(self)
	maps.Copy(all, map[string]kubelet.Program{
		registry + "echo-basic": {Args: []string{program("echo-basic")}},
		registry + "echo-advanced": {
			Args:     []string{program("echo-server")},
			Files:    map[string]string{"/cert.crt": certificate, "/cert.key": key},
			Commands: map[string]string{"client": program("echo-client")},
		},
		"registry.k8s.io/coredns/coredns": {Args: []string{self, pauseCommand}},
	})
	return all
}

// filesOfPods is a directory that the users of Pods can read, unlike that of a test.
func filesOfPods(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LATEEN_CONFORMANCE_PODS"); dir != "" {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		return dir
	}
	dir, err := os.MkdirTemp("", "pods")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // proxies run as another user
	return dir
}

// servingCertificate writes the certificate and the key of the echo server's image.
func servingCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	dir := filesOfPods(t)
	certificate, key = filepath.Join(dir, "cert.crt"), filepath.Join(dir, "cert.key")
	chain, private := selfSigned(t)
	require.NoError(t, os.WriteFile(certificate, chain, 0o644))
	require.NoError(t, os.WriteFile(key, private, 0o644))
	return certificate, key
}
