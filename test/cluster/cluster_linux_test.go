package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/test/cluster/kubelet"
	"github.com/lateen-mesh/lateen/test/cluster/names"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	// patience is how long anything may take that should happen in a moment; on a busy machine
	// moments are long.
	patience     = 3 * time.Minute
	pollInterval = 20 * time.Millisecond
	space        = "default" // the namespace in which tests begin
)

// cluster is a running one, seen from one of its namespaces: manifests, Pods, Deployments and
// service accounts that name no namespace are of this one.
type cluster struct {
	*shared
	namespace string
}

// shared is what all namespaces of a cluster have in common.
type shared struct {
	api     *kubeapi.Server
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	network *podnet.Network
	kubelet *kubelet.Kubelet
	names   *names.Names
	log     *slog.Logger
	logs    *tail
	plane   *plane
	// agent and envoy are binaries.
	agent, envoy string
}

// start makes a cluster that ends with the test.
func start(t *testing.T) *cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	envoy := realenvoy.Binary(t)
	c := &cluster{shared: &shared{logs: &tail{}}, namespace: space}
	c.api = kubeapi.Start(t, kubeapi.Options{
		ControllerManagerFlags: []string{"--node-monitor-grace-period=20s", "--node-monitor-period=1s"},
	})
	c.api.InstallIstioCRDs(t)
	config := c.api.Config()
	config.QPS, config.Burst = 1000, 1000
	c.client, c.dynamic = kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	network, err := podnet.New()
	require.NoError(t, err)
	c.network = network
	t.Cleanup(network.Close)
	c.log = slog.New(slog.NewTextHandler(c.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last log lines:\n%s", c.logs)
		}
	})
	c.in(t, rootNamespace)
	c.serve(t, time.Now)
	t.Cleanup(func() { c.plane.stop() }) // whichever runs then
	c.run(t, envoy)
	return c
}

// run starts the DNS and the kubelet.
func (c *cluster) run(t *testing.T, envoy string) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	self, err := os.Executable()
	require.NoError(t, err)
	c.agent, c.envoy = agentBinary(t), envoy
	factory := informers.NewSharedInformerFactory(c.client, 0)
	c.names = names.New(factory)
	c.kubelet = kubelet.New(kubelet.Options{
		Client:  c.client,
		Network: c.network,
		Self:    self,
		Agent:   c.agent,
		Envoy:   c.envoy,

		Discovery:  secureAddr(),
		ServerName: serverName,

		Dir:   podsDir(t),
		Nodes: []string{"node-a", "node-b"},
		Log:   c.log,
	}, factory)
	queries, err := c.network.ListenPacket(53)
	require.NoError(t, err)
	running.Go(func() { _ = c.names.Serve(queries) })
	t.Cleanup(func() { _ = queries.Close() })
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	running.Go(func() {
		if err := c.kubelet.Run(ctx); err != nil {
			c.log.Error("the kubelet ends", "error", err)
		}
	})
	c.account(t, "default")
}

// in returns the cluster as seen from a namespace, which it creates if there is none of the name.
// A namespace stays until the cluster ends.
func (c *cluster) in(t *testing.T, namespace string) *cluster {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	seen := &cluster{shared: c.shared, namespace: namespace}
	seen.account(t, "default")
	return seen
}

// account waits for a service account, without which no Pod of it can be created.
func (c *cluster) account(t *testing.T, name string) {
	t.Helper()
	c.await(t, "service account "+c.namespace+"/"+name, func() bool {
		_, err := c.client.CoreV1().ServiceAccounts(c.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	})
}

// await waits until something is so.
func (c *cluster) await(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !is() {
		if time.Now().After(deadline) {
			require.FailNow(t, "still not so: "+what, c.describe())
		}
		<-tick.C
	}
}

// describe is what a person would look at first.
func (c *cluster) describe() string {
	var b strings.Builder
	list, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, p := range list.Items {
		fmt.Fprintln(&b, p.Namespace+"/"+p.Name, p.Status.Phase, p.Status.PodIP, "ready="+readiness(&p))
	}
	return b.String()
}

func readiness(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return string(c.Status)
		}
	}
	return "?"
}

// apply creates or changes objects, and deletes them when the test ends.
func (c *cluster) apply(t *testing.T, manifests ...string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(strings.Join(manifests, "\n---\n"))), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if len(o.Object) == 0 {
			continue
		}
		if o.GetNamespace() == "" {
			o.SetNamespace(c.namespace)
		}
		at := c.resource(t, o.GroupVersionKind()).Namespace(o.GetNamespace())
		_, err = at.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(t, err)
		t.Cleanup(func() {
			background := metav1.DeletePropagationBackground
			// it may be gone
			_ = at.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		})
	}
}

func (c *cluster) resource(t *testing.T, kind schema.GroupVersionKind) dynamic.NamespaceableResourceInterface {
	t.Helper()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	return c.dynamic.Resource(mapping.Resource)
}

// pods are the ready pods with labels, which are "app=reviews,version=v1".
func (c *cluster) pods(t testing.TB, selector string) []corev1.Pod {
	t.Helper()
	list, err := c.client.CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(t, err)
	var ready []corev1.Pod
	for _, p := range list.Items {
		if readiness(&p) == "True" && p.DeletionTimestamp == nil {
			ready = append(ready, p)
		}
	}
	return ready
}

// ready waits until all replicas of Deployments are ready.
func (c *cluster) ready(t *testing.T, deployments ...string) {
	t.Helper()
	for _, name := range deployments {
		c.await(t, name+" is ready", func() bool {
			d, err := c.client.AppsV1().Deployments(c.namespace).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && d.Status.ObservedGeneration == d.Generation &&
				d.Status.UpdatedReplicas == *d.Spec.Replicas &&
				d.Status.ReadyReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
		})
	}
}

// secureAddr is the control plane's, as pods know it.
func secureAddr() netip.AddrPort { return netip.AddrPortFrom(podnet.Gateway, 15012) }

// serverName is what the control plane's certificate is for.
const serverName = "istiod." + rootNamespace + ".svc"

// podsDir is a directory that the users of pods can read, unlike that of a test.
func podsDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pods")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // proxies run as another user
	return dir
}

// agentBinary builds lateen-agent.
func agentBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(podsDir(t), "lateen-agent")
	out, err := lateenserve.GoBuild("-ldflags", "-s -w", "-o", path,
		"github.com/lateen-mesh/lateen/cmd/lateen-agent").CombinedOutput()
	require.NoError(t, err, string(out))
	lateenserve.LookAtSources(t)
	return path
}

// tail keeps the last lines that were written; older ones are dropped.
type tail struct {
	mu    sync.Mutex
	lines []string
}

// A tail keeps so many lines, and shows the last ones.
const keptLines, shownLines = 5000, 60

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines = append(b.lines, string(p)); len(b.lines) > keptLines {
		b.lines = b.lines[1:]
	}
	return len(p), nil
}

// has reports whether a line has a text.
func (b *tail) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.lines, func(line string) bool { return strings.Contains(line, text) })
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines[max(0, len(b.lines)-shownLines):], "")
}
