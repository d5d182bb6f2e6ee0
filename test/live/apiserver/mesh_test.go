package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	istioclient "istio.io/client-go/pkg/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

const (
	namespace     = "shop"
	rootNamespace = "istio-system"
)

// services is how many the mesh has before a test adds more.
const services = 20

// mesh is a control plane of a cluster, with proxies.
type mesh struct {
	t       *testing.T
	api     *kubeapi.Server
	core    kubernetes.Interface
	istio   istioclient.Interface
	lateen  *lateenserve.Process
	args    []string // of lateen
	proxies []*leanproxy.Client
	markers int
}

// start makes a mesh. The test itself does what controllers do, so that it knows what changes.
// Arguments are lateen's.
func start(t *testing.T, args ...string) *mesh {
	t.Helper()
	if testing.Short() {
		t.Skip("a live test")
	}
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true})
	api.InstallIstioCRDs(t)
	m := &mesh{t: t, api: api, args: args}
	var err error
	m.core, err = kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	m.istio, err = istioclient.NewForConfig(api.Config())
	require.NoError(t, err)
	for _, name := range []string{namespace, rootNamespace} {
		_, err = m.core.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for i := range services {
		m.service(fmt.Sprintf("web-%d", i), fmt.Sprintf("10.1.0.%d", 1+i))
	}
	m.virtualService("web-0", retries(1))
	m.lateen = lateenserve.Start(t, m.serve())
	for i := range 3 {
		m.proxies = append(m.proxies, m.connect(m.lateen, fmt.Sprintf("client-%d", i)))
	}
	return m
}

// serve has no early batches: what one controller writes after another counts as one change.
func (m *mesh) serve() lateenserve.Options {
	return lateenserve.Options{
		Binary: binary,
		Args:   append([]string{"--kubeconfig", m.api.Kubeconfig()}, m.args...),
		Env:    []string{"PILOT_DEBOUNCE_AFTER=100ms"},
	}
}

// connect starts a proxy, and waits until it has everything.
func (m *mesh) connect(lateen *lateenserve.Process, pod string) *leanproxy.Client {
	m.t.Helper()
	p := m.dial(lateen, pod)
	p.AwaitSynced(m.t)
	return p
}

func (m *mesh) dial(lateen *lateenserve.Process, pod string) *leanproxy.Client {
	return leanproxy.Start(m.t, leanproxy.Options{
		Server: lateen.XDS, Node: leanproxy.Sidecar(pod, namespace, "10.2.0.1", map[string]string{"app": "client"}),
	})
}

// service creates a Service with one endpoint.
func (m *mesh) service(name, address string) {
	m.t.Helper()
	_, err := m.core.CoreV1().Services(namespace).Create(m.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(m.t, err)
	_, err = m.core.DiscoveryV1().EndpointSlices(namespace).Create(m.t.Context(), slice(name, address),
		metav1.CreateOptions{})
	require.NoError(m.t, err)
}

func slice(name, address string) *discoveryv1.EndpointSlice {
	port, portName := int32(80), "http"
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: namespace,
			Labels:    map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	}
}

func (m *mesh) virtualService(host string, routes []*networking.HTTPRoute) {
	m.t.Helper()
	for _, r := range routes {
		r.Route = []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host}}}
	}
	_, err := m.istio.NetworkingV1().VirtualServices(namespace).Create(m.t.Context(), &networkingv1.VirtualService{
		ObjectMeta: metav1.ObjectMeta{Name: host}, Spec: networking.VirtualService{Hosts: []string{host}, Http: routes},
	}, metav1.CreateOptions{})
	require.NoError(m.t, err)
}

// retries is one route that tries so often.
func retries(n int32) []*networking.HTTPRoute {
	return []*networking.HTTPRoute{{Retries: &networking.HTTPRetry{Attempts: n}}}
}

func cluster(service string) string {
	return "outbound|80||" + service + "." + namespace + ".svc.cluster.local"
}

func virtualHost(service string) string {
	return "80/" + service + "." + namespace + ".svc.cluster.local:80"
}

// marker adds a service and waits until every proxy can call it: then everything that was said
// before, by these watches, has been taken in. It returns the service's name.
func (m *mesh) marker() string {
	m.t.Helper()
	m.markers++
	name := fmt.Sprintf("marker-%d", m.markers)
	m.service(name, fmt.Sprintf("10.3.0.%d", m.markers))
	m.virtualService(name, []*networking.HTTPRoute{{Name: name}})
	for _, p := range m.proxies {
		m.awaitMarker(p, name)
	}
	return name
}

func (m *mesh) awaitMarker(p *leanproxy.Client, name string) {
	m.t.Helper()
	p.Await(m.t, name, func(s *leanproxy.State) bool {
		return s.HasRoute(name) && s.Hosts(cluster(name)) != ""
	})
}

// mark is how many responses each proxy had got at one time.
type mark map[*leanproxy.Client]int

func (m *mesh) mark() mark {
	marks := mark{}
	for _, p := range m.proxies {
		p.Look(func(s *leanproxy.State) { marks[p] = len(s.Responses) })
	}
	return marks
}

// sent are the names that each proxy was sent since a mark, by type; every proxy was sent the same.
// Streams may not have broken.
func (m *mesh) sent(since mark) map[leanproxy.Type]map[string]int {
	m.t.Helper()
	var first map[leanproxy.Type]map[string]int
	for p, n := range since {
		names := map[leanproxy.Type]map[string]int{}
		p.Look(func(s *leanproxy.State) {
			require.Equal(m.t, 1, s.Streams, "the stream has lived through it")
			for _, r := range s.Responses[n:] {
				require.Empty(m.t, r.Removed)
				if names[r.Type] == nil {
					names[r.Type] = map[string]int{}
				}
				for _, name := range r.Names {
					names[r.Type][name]++
				}
			}
		})
		if first == nil {
			first = names
		}
		require.ElementsMatch(m.t, keys(first), keys(names))
	}
	return first
}

func keys(sent map[leanproxy.Type]map[string]int) (all []string) {
	for t, names := range sent {
		for name := range names {
			all = append(all, string(t)+"/"+name)
		}
	}
	return all
}

// only checks that since a mark nothing came but a marker (its cluster, its endpoints, its virtual
// host) and the endpoints of further services.
func (m *mesh) only(since mark, marker string, endpoints ...string) {
	m.t.Helper()
	sent := m.sent(since)
	require.Equal(m.t, map[string]int{cluster(marker): 1}, sent[leanproxy.Cluster])
	want := []string{cluster(marker)}
	for _, e := range endpoints {
		want = append(want, cluster(e))
		require.Equal(m.t, 1, sent[leanproxy.Endpoint][cluster(e)], "the endpoints of %s go once", e)
	}
	var got []string
	for name := range sent[leanproxy.Endpoint] {
		got = append(got, name)
	}
	require.ElementsMatch(m.t, want, got)
	require.Len(m.t, sent[leanproxy.VirtualHost], 1) // twice, if the watch of its routes is behind that of services
	require.Contains(m.t, sent[leanproxy.VirtualHost], virtualHost(marker))
	require.Empty(m.t, sent[leanproxy.Route])
	require.Empty(m.t, sent[leanproxy.Listener])
}

// problem is what /debug/problems says of one.
type problem struct{ Severity, Kind, Namespace, Name, Origin, Path, Message, Text string }

// problems are those that the control plane reports now.
func (m *mesh) problems() []problem { return problemsOf(m.t, m.lateen) }

func problemsOf(t *testing.T, lateen *lateenserve.Process) []problem {
	t.Helper()
	response, err := http.Get("http://" + lateen.Monitoring + "/debug/problems")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	var all []problem
	require.NoError(t, json.NewDecoder(response.Body).Decode(&all))
	return all
}

// eventually waits until a condition holds, for as long as the test may run.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 3*time.Minute, 20*time.Millisecond, what) // a busy machine takes long for anything
}
