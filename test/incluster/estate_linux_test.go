package incluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// estate is a cluster with Lateen installed and its webhooks in force, in which other programs run.
// Nothing runs in its Pods but a sidecar, an Envoy of the namespace default.
type estate struct {
	*cluster
	plane   *replica
	sidecar string // the admin address of the Envoy
}

// tested is the namespace of the objects of programs.
const tested = "test"

func newEstate(t *testing.T) *estate {
	t.Helper()
	asRoot(t)
	c := startCluster(t, aggregatorRouting)
	c.api.InstallIstioCRDs(t)
	c.applyManifests(t)
	e := &estate{cluster: c, plane: c.playNode(t).serve(t, "default", "istiod")}
	eventually(t, func(ct require.TestingT) { require.Equal(ct, "Fail Fail", c.policies(ct)) })
	e.sidecar = c.envoy(t, e.plane)
	c.namespace(t, tested, nil)
	return e
}

// applyAll applies documents of all kinds that the API server serves. Those without a namespace are
// of the tested one.
func (e *estate) applyAll(t *testing.T, documents string) {
	t.Helper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(e.client.Discovery()))
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		require.NoError(t, err)
		if o.GetNamespace() == "" {
			o.SetNamespace(tested)
		}
		_, err = e.objects.Resource(mapping.Resource).Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
		require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
	}
}

// textOf returns a field of an object of the tested namespace, empty without one.
func (e *estate) textOf(t require.TestingT, where schema.GroupVersionResource, name string, field ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o, err := e.objects.Resource(where).Namespace(tested).Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	value, _, err := unstructured.NestedFieldNoCopy(o.Object, field...)
	require.NoError(t, err)
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// runProgram runs a program until the test ends. What it printed is shown if the test fails.
func runProgram(t *testing.T, binary string, args ...string) {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Dir = t.TempDir()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	printed := &lockedBuffer{}
	command.Stdout, command.Stderr = printed, printed
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(binary), printed)
		}
	})
}

// lockedBuffer keeps what was written.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// gateway runs an Envoy as a gateway with the label istio: ingressgateway, behind a Service, and
// returns its admin address.
func (e *estate) gateway(t *testing.T) string {
	t.Helper()
	labels := map[string]string{"istio": "ingressgateway", "app": "istio-ingressgateway"}
	pods := e.client.CoreV1().Pods(root)
	_, err := pods.Create(t.Context(), podOn("node-1", root, "ingress-0", "istio-proxy", labels),
		metav1.CreateOptions{})
	require.NoError(t, err)
	var pod *corev1.Pod
	eventually(t, func(ct require.TestingT) {
		pod, err = pods.Get(context.Background(), "ingress-0", metav1.GetOptions{})
		require.NoError(ct, err)
		require.NotEmpty(ct, pod.Status.PodIP)
	})
	return e.plane.runEnvoy(t, func(admin, free uint16) string {
		e.applyAll(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service",
			"metadata": {"name": "istio-ingressgateway", "namespace": %q},
			"spec": {"selector": {"istio": "ingressgateway"}, "ports": [
				{"name": "http2", "port": 80, "targetPort": %d}]}}`, root, free))
		metadata := `LABELS: {istio: ingressgateway, app: istio-ingressgateway}`
		sidecar := fmt.Sprintf(envoyBootstrap, admin, e.plane.ports["xds"], metadata, pod.Name, pod.Status.PodIP)
		return strings.NewReplacer("sidecar~", "router~", pod.Name+".default~default", pod.Name+"."+root+"~"+root,
			"NAMESPACE: default", "NAMESPACE: "+root).Replace(sidecar)
	})
}

// areAccepted requires that Lateen has looked at the newest version of each object of Istio's in
// the tested namespace, and says no word against it.
func (e *estate) areAccepted(t *testing.T, all ...kinds.Kind) {
	t.Helper()
	for _, kind := range all {
		eventually(t, func(ct require.TestingT) {
			list, err := e.objects.Resource(kinds.Of(kind).GroupVersionResource()).Namespace(tested).List(
				context.Background(), metav1.ListOptions{})
			require.NoError(ct, err)
			require.NotEmpty(ct, list.Items)
			for i := range list.Items {
				isAccepted(ct, &list.Items[i])
			}
		})
	}
}

func isAccepted(t require.TestingT, o *unstructured.Unstructured) {
	about := o.GetKind() + " " + o.GetName()
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	require.Equal(t, o.GetGeneration(), observed, about)
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	require.NotEmpty(t, conditions, about)
	for _, c := range conditions {
		require.Equal(t, "True", c.(map[string]any)["status"], "%s: %v", about, c)
	}
}

// hasNoErrors requires that lateen analyze finds no error in the cluster.
func (e *estate) hasNoErrors(t *testing.T) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		out, _ := e.tool(t, "analyze", "cluster", "--namespace", root)
		require.Regexp(ct, `(?m)^0 errors`, out)
	})
}
