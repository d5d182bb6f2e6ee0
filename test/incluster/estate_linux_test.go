package incluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
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

// virtualHost is what an Envoy has for a domain.
type virtualHost struct {
	Domains []string `json:"domains"`
	Routes  []struct {
		added
		Match json.RawMessage `json:"match"`
		Route struct {
			Cluster  string `json:"cluster"`
			Weighted struct {
				Clusters []struct {
					added
					Name   string `json:"name"`
					Weight int    `json:"weight"`
				} `json:"clusters"`
			} `json:"weighted_clusters"`
		} `json:"route"`
	} `json:"routes"`
}

// added are headers that a route adds to requests.
type added struct {
	Headers []struct {
		Header struct{ Key, Value string } `json:"header"`
	} `json:"request_headers_to_add"`
}

type headers map[string]string

func (a added) headers() headers {
	all := headers{}
	for _, h := range a.Headers {
		all[http.CanonicalHeaderKey(h.Header.Key)] = h.Header.Value
	}
	return all
}

// host returns what the Envoy at an admin address has for a domain.
func host(t require.TestingT, admin, domain string) virtualHost {
	var dump struct {
		Configs []struct {
			RouteConfig struct {
				VirtualHosts []virtualHost `json:"virtual_hosts"`
			} `json:"route_config"`
		} `json:"configs"`
	}
	dumped(t, admin, "dynamic_route_configs", &dump)
	var others []string
	for _, config := range dump.Configs {
		for _, h := range config.RouteConfig.VirtualHosts {
			if slices.Contains(h.Domains, domain) {
				return h
			}
			others = append(others, h.Domains...)
		}
	}
	require.Failf(t, "no virtual host", "domain %s; there are %v", domain, others)
	return virtualHost{}
}

// discoveryOf returns how an Envoy finds the endpoints of a cluster.
func discoveryOf(t require.TestingT, admin, name string) string {
	var dump struct {
		Configs []struct{ Cluster struct{ Name, Type string } } `json:"configs"`
	}
	dumped(t, admin, "dynamic_active_clusters", &dump)
	for _, c := range dump.Configs {
		if c.Cluster.Name == name {
			return c.Cluster.Type
		}
	}
	return ""
}

// dumped reads resources of the Envoy at an admin address.
func dumped(t require.TestingT, admin, resource string, into any) {
	response, err := http.Get("http://" + admin + "/config_dump?resource=" + resource)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
}

// splits tells of each route where it leads, as "podinfo-primary 80, podinfo-canary 20": by subset,
// or else by Service.
func (h virtualHost) splits() (all []string) {
	for _, r := range h.Routes {
		if r.Route.Cluster != "" {
			all = append(all, destination(r.Route.Cluster)+" 100")
			continue
		}
		var parts []string
		for _, c := range r.Route.Weighted.Clusters {
			parts = append(parts, fmt.Sprintf("%s %d", destination(c.Name), c.Weight))
		}
		all = append(all, strings.Join(parts, ", "))
	}
	return all
}

// destination returns the subset of a cluster, or its Service.
func destination(cluster string) string {
	parts := strings.Split(cluster, "|") // outbound|80|subset|host
	if len(parts) != 4 {
		return cluster
	}
	if parts[2] != "" {
		return parts[2]
	}
	service, _, _ := strings.Cut(parts[3], ".")
	return service
}

// routed waits until an Envoy splits the requests for a domain so.
func routed(t *testing.T, admin, domain string, want ...string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) { require.Equal(ct, want, host(ct, admin, domain).splits()) })
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
