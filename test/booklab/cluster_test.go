package booklab

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	istioclient "istio.io/client-go/pkg/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

// The lab's names are the book's.
const (
	shop, system, monitoring = "istioinaction", "istio-system", "prometheus"
	node                     = "node-a"
	dummies                  = 200
)

// cluster is the API server with who writes to it.
type cluster struct {
	t     *testing.T
	api   *kubeapi.Server
	core  kubernetes.Interface
	istio istioclient.Interface
	nodes []proxyNode
}

// proxyNode is a Pod with a proxy.
type proxyNode struct {
	pod, namespace, address string
	labels                  map[string]string
	gateway                 bool
}

// newCluster holds what the book has deployed before it measures.
func newCluster(t *testing.T) *cluster {
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	core, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	istio, err := istioclient.NewForConfig(api.Config())
	require.NoError(t, err)
	c := &cluster{t: t, api: api, core: core, istio: istio}
	for _, name := range []string{shop, system, monitoring} {
		c.namespace(name)
	}
	api.Node(t, node, nil)
	c.workload(proxyNode{
		pod:       "istio-ingressgateway-0",
		namespace: system,
		gateway:   true,
		labels:    map[string]string{"app": "istio-ingressgateway", "istio": "ingressgateway"},
	}, 8080)
	c.workload(proxyNode{pod: "catalog-0", namespace: shop, labels: map[string]string{"app": "catalog"}}, 3000)
	c.workload(proxyNode{pod: "webapp-0", namespace: shop, labels: map[string]string{"app": "webapp"}}, 8080)
	for i := range 10 {
		app := fmt.Sprintf("sleep-%d", i)
		c.workload(proxyNode{pod: app + "-0", namespace: shop, labels: map[string]string{"app": app}}, 80)
	}
	for i := range dummies {
		c.application(fmt.Sprintf("dummy-%03d", i))
	}
	return c
}

func (c *cluster) namespace(name string) {
	ctx := c.t.Context()
	_, err := c.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	require.NoError(c.t, err)
	require.Eventually(c.t, func() bool {
		_, err := c.core.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}, 3*time.Minute, 20*time.Millisecond) // on a busy machine the controllers start late
}

// workload is a Service with one ready Pod, whose proxy will connect.
func (c *cluster) workload(n proxyNode, port int32) {
	n.address = fmt.Sprintf("10.1.0.%d", 1+len(c.nodes))
	c.nodes = append(c.nodes, n)
	c.service(n.namespace, n.labels["app"], n.labels["app"], port)
	c.api.RunPod(c.t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: n.pod, Namespace: n.namespace, Labels: n.labels},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "app", Image: "app", Ports: []corev1.ContainerPort{{ContainerPort: port}},
		}}},
	}, n.address)
}

func (c *cluster) service(namespace, name, app string, target int32) {
	_, err := c.core.CoreV1().Services(namespace).Create(c.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(target)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// application is what the book creates at each step: a Service (of the catalog's Pod), a Gateway
// and a VirtualService.
func (c *cluster) application(name string) {
	ctx := c.t.Context()
	c.service(shop, name, "catalog", 3000)
	host := outside(name)
	_, err := c.istio.NetworkingV1().Gateways(shop).Create(ctx, &networkingv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networking.Gateway{
			Selector: map[string]string{"istio": "ingressgateway"},
			Servers: []*networking.Server{{
				Port:  &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"},
				Hosts: []string{host},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = c.istio.NetworkingV1().VirtualServices(shop).Create(ctx, &networkingv1.VirtualService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networking.VirtualService{
			Hosts: []string{host}, Gateways: []string{name},
			Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{
				Destination: &networking.Destination{Host: name, Port: &networking.PortSelector{Number: 80}},
			}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// outside is the host by which an application is called through the gateway, inside that by which
// sidecars call it.
func outside(name string) string { return name + ".istioinaction.io" }
func inside(name string) string  { return name + "." + shop + ".svc.cluster.local" }
func clusterOf(name string) string {
	return "outbound|80||" + inside(name)
}

// narrow is the book's Sidecar for the whole mesh: nobody sees more than the control plane and the
// monitoring.
func (c *cluster) narrow() {
	_, err := c.istio.NetworkingV1().Sidecars(system).Create(c.t.Context(), &networkingv1.Sidecar{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: networking.Sidecar{
			Egress: []*networking.IstioEgressListener{
				{Hosts: []string{system + "/*", monitoring + "/*"}},
			},
			OutboundTrafficPolicy: &networking.OutboundTrafficPolicy{
				Mode: networking.OutboundTrafficPolicy_REGISTRY_ONLY,
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// connect starts all proxies and waits until each has everything.
func (c *cluster) connect(t *testing.T, server string) (sidecars []*leanproxy.Client, gateway *leanproxy.Client) {
	for _, n := range c.nodes {
		o := leanproxy.Options{Server: server, Node: leanproxy.Sidecar(n.pod, n.namespace, n.address, n.labels)}
		if n.gateway {
			o.Node = leanproxy.Gateway(n.pod, n.namespace, n.address, n.labels)
			gateway = leanproxy.Start(t, o)
			continue
		}
		sidecars = append(sidecars, leanproxy.Start(t, o))
	}
	for _, p := range append(sidecars, gateway) {
		p.AwaitSynced(t)
	}
	return sidecars, gateway
}
