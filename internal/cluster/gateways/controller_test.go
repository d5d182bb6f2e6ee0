package gateways

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

var shared kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(leak.Run(func() int { return shared.Run(m) })) }

// patience bounds every wait: the machine may be busy.
const patience = 2 * time.Minute

// rig is a namespace of a real API server, and what a Controller is given and says there. The
// Gateway that owns the objects is a ConfigMap: the API server knows only its UID.
type rig struct {
	client    *kubernetes.Clientset
	config    *rest.Config
	namespace string
	root      string
	revision  string
	metrics   *observe.Metrics
	wanted    *Deployments
	render    Render

	mu   sync.Mutex
	said map[string]model.Condition // by the name of the Gateway
}

func newRig(t *testing.T) *rig {
	api := shared.Server(t)
	client, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	return &rig{
		client: client, config: api.Config(), namespace: api.Namespace(t, nil), root: api.Namespace(t, nil),
		metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}), wanted: NewDeployments(),
		render: rendered(t), said: map[string]model.Condition{},
	}
}

// rendered renders by the templates that Lateen has.
func rendered(t testing.TB) Render {
	injector, err := inject.New(inject.Options{Namespace: "istio-system", Revision: "default"}, inject.Texts{})
	require.NoError(t, err)
	return func(pod []byte, namespace, deployment string) ([]byte, error) {
		r, err := injector.Inject(inject.Pod{JSON: pod, Namespace: namespace, Owner: inject.Owner{
			APIVersion: "apps/v1", Kind: "Deployment", Name: deployment,
		}})
		return r.JSON, err
	}
}

func (r *rig) report(k source.Key, c model.Condition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew := r.said[k.Name] != c
	r.said[k.Name] = c
	return isNew
}

// condition returns what was said of a Gateway; ok is false as long as nothing was.
func (r *rig) condition(gateway string) (c model.Condition, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok = r.said[gateway]
	return c, ok
}

// gateway makes the owner of a Gateway's objects.
func (r *rig) gateway(t *testing.T, name string) *model.GatewayDeployment {
	owner, err := r.client.CoreV1().ConfigMaps(r.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return &model.GatewayDeployment{
		Gateway: model.Meta{
			Kind: kinds.KubernetesGateway, Namespace: r.namespace, Name: name, UID: string(owner.UID),
		},
		Name: name + "-lateen", Class: "lateen",
		Infrastructure: model.Infrastructure{
			ServiceType: "ClusterIP",
			Labels:      model.LabelsOf(map[string]string{"team": "edge"}),
			Annotations: model.LabelsOf(map[string]string{"note": "a=b", "sidecar.istio.io/proxyImage": "mine"}),
		},
		Ports: []model.GatewayPort{{Port: 80, Protocol: model.HTTP}, {Port: 443, Protocol: model.TLS}},
	}
}

// deploy hands a Gateway to the Controller.
func (r *rig) deploy(d *model.GatewayDeployment) { r.wanted.Compiled(d.Gateway.Key(), d) }

// run starts a Controller for the rest of the test. What is done once it has ended is another term.
func (r *rig) run(t *testing.T) (stop func()) {
	api, err := NewAPI(r.config)
	require.NoError(t, err)
	c := NewController(Options{
		Deployments: r.wanted, API: api, RootNamespace: r.root, Revision: r.revision, Render: r.render,
		Report: r.report, Metrics: r.metrics, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// once runs a term until all that is wanted was handled, and returns what was said of a Gateway.
func (r *rig) once(t *testing.T, gateway string) model.Condition {
	t.Helper()
	r.mu.Lock()
	clear(r.said)
	r.mu.Unlock()
	stop := r.run(t)
	defer stop()
	require.Eventually(t, func() bool { _, ok := r.condition(gateway); return ok }, patience, time.Millisecond)
	c, _ := r.condition(gateway)
	return c
}

func (r *rig) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	d, err := r.client.AppsV1().Deployments(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return d
}

func (r *rig) service(t *testing.T, name string) *corev1.Service {
	t.Helper()
	s, err := r.client.CoreV1().Services(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return s
}

func TestAGatewayGetsItsObjects(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	r.deploy(g)
	require.Zero(t, r.once(t, "edge"))
	d := r.deployment(t, "edge-lateen")
	require.Equal(t, types.UID(g.Gateway.UID), d.OwnerReferences[0].UID)
	pod := d.Spec.Template
	require.Equal(t, "edge", pod.Labels["team"])
	require.Equal(t, "edge", pod.Labels[model.GatewayNameLabel])
	require.Equal(t, "false", pod.Labels["sidecar.istio.io/inject"], "the webhook has nothing to do")
	require.Equal(t, "a=b", pod.Annotations["note"])
	require.NotContains(t, pod.Annotations, "sidecar.istio.io/proxyImage")
	require.Equal(t, "edge-lateen", pod.Spec.ServiceAccountName)
	proxy := pod.Spec.Containers[0]
	require.Equal(t, "lateen-proxy", proxy.Image, "the proxy is rendered")
	require.Equal(t, []string{"proxy", "router"}, proxy.Args[:2])
	require.EqualValues(t, 1, *d.Spec.Replicas, "the API server's default")

	s := r.service(t, "edge-lateen")
	require.Equal(t, corev1.ServiceTypeClusterIP, s.Spec.Type)
	var ports []int32
	for _, p := range s.Spec.Ports {
		ports = append(ports, p.Port)
	}
	require.Equal(t, []int32{15021, 80, 443}, ports)
	_, err := r.client.CoreV1().ServiceAccounts(r.namespace).Get(t.Context(), "edge-lateen", metav1.GetOptions{})
	require.NoError(t, err)
	roles, err := r.client.RbacV1().Roles(r.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, roles.Items, "Secrets come by references, not by rights")
}

// A second term writes nothing where all is as it should be, and takes away what is not wanted any
// more, also of what it was created with. What people set stays.
func TestASecondApplicationTakesAwayWhatIsNotWanted(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	r.deploy(g)
	require.Zero(t, r.once(t, "edge"))
	require.Zero(t, r.once(t, "edge"), "the creation is taken over")
	before, generation := r.service(t, "edge-lateen").ResourceVersion, r.deployment(t, "edge-lateen").Generation
	require.Zero(t, r.once(t, "edge"))
	require.Equal(t, before, r.service(t, "edge-lateen").ResourceVersion)
	require.Equal(t, generation, r.deployment(t, "edge-lateen").Generation)

	_, err := r.client.AppsV1().Deployments(r.namespace).Patch(t.Context(), "edge-lateen", types.MergePatchType,
		[]byte(`{"spec": {"replicas": 3}, "metadata": {"labels": {"mine": "stays"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	changed := *g
	changed.Labels, changed.Ports = model.Labels{}, g.Ports[:1]
	r.deploy(&changed)
	require.Zero(t, r.once(t, "edge"))
	d := r.deployment(t, "edge-lateen")
	require.EqualValues(t, 3, *d.Spec.Replicas)
	require.Equal(t, "stays", d.Labels["mine"])
	require.NotContains(t, d.Labels, "team")
	require.NotContains(t, d.Spec.Template.Labels, "team")
	require.Len(t, r.service(t, "edge-lateen").Spec.Ports, 2)
}

// istiods returns a Deployment as istiod has it for a Gateway.
func istiods(g *model.GatewayDeployment) string {
	labels := map[string]string{model.GatewayNameLabel: g.Gateway.Name}
	body, _ := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name":   g.Name,
			"labels": map[string]string{istiodLabel: "istio.io-gateway-controller", "from": "istiod"},
			"ownerReferences": []metav1.OwnerReference{{
				APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: g.Gateway.Name,
				UID: types.UID(g.Gateway.UID),
			}},
		},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{"containers": []any{
					map[string]any{"name": "istio-proxy", "image": "istiods", "env": []any{
						map[string]any{"name": "ONLY_ISTIODS", "value": "x"},
					}},
				}},
			},
		},
	})
	return string(body)
}

// What istiod deploys for the same Gateway is left to it, though it belongs to the Gateway, and the
// other objects are applied. Without istiod's label it is handed over, whole.
func TestWhatIstiodDeploysIsLeftUntilItIsHandedOver(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	force := true
	_, err := r.client.AppsV1().Deployments(r.namespace).Patch(t.Context(), g.Name, types.ApplyPatchType,
		[]byte(istiods(g)), metav1.PatchOptions{FieldManager: istiodManager, Force: &force})
	require.NoError(t, err)
	before := r.deployment(t, g.Name)
	r.deploy(g)
	c := r.once(t, "edge")
	require.Equal(t, reasonForeign, c.Reason)
	require.Contains(t, c.Message,
		"Deployment edge-lateen: istiod manages it: another manager has an object of this name")
	after := r.deployment(t, g.Name)
	require.Equal(t, before.Generation, after.Generation)
	require.Equal(t, before.Labels, after.Labels)
	require.Negative(t, entryOf(&after.ObjectMeta, fieldManager))
	require.Len(t, r.service(t, g.Name).Spec.Ports, 3, "the other objects go on")

	_, err = r.client.AppsV1().Deployments(r.namespace).Patch(t.Context(), g.Name, types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"`+istiodLabel+`": null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Zero(t, r.once(t, "edge"))
	d := r.deployment(t, g.Name)
	require.Equal(t, "lateen-proxy", d.Spec.Template.Spec.Containers[0].Image)
	require.NotContains(t, d.Labels, "from")
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		require.NotEqual(t, "ONLY_ISTIODS", v.Name)
	}
	require.Negative(t, entryOf(&d.ObjectMeta, istiodManager))
}

// What somebody has made that is no Gateway's stays.
func TestObjectsOfOthersStay(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	_, err := r.client.CoreV1().Services(r.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "mine"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.deploy(g)
	require.Equal(t, reasonForeign, r.once(t, "edge").Reason)
	require.Equal(t, map[string]string{"app": "mine"}, r.service(t, g.Name).Spec.Selector)
	r.deployment(t, g.Name)
}

// A control plane deploys the Gateways of its revision: that of the Gateway or its namespace, else
// the default one.
func TestOnlyGatewaysOfTheRevisionAreDeployed(t *testing.T) {
	for _, c := range []struct {
		own, gateway string
		want         bool
	}{
		{"", "", true}, {"default", "", true}, {"", "default", true}, {"canary", "canary", true},
		{"canary", "", false}, {"", "canary", false}, {"canary", "default", false},
	} {
		controller := NewController(Options{Revision: c.own})
		d := &model.GatewayDeployment{Infrastructure: model.Infrastructure{Revision: c.gateway}}
		require.Equal(t, c.want, controller.deploys(d), "%+v", c)
	}
}

// One Gateway whose requests are refused holds up no other one, nor its own other objects.
func TestEachObjectIsAppliedOnItsOwn(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	g.Ports = append(g.Ports, model.GatewayPort{Port: 0, Protocol: model.TCP}) // no API server takes it
	r.deploy(g)
	working := r.render
	r.render = func(pod []byte, namespace, deployment string) ([]byte, error) {
		if deployment == g.Name {
			return nil, context.DeadlineExceeded
		}
		return working(pod, namespace, deployment)
	}
	other := r.gateway(t, "other")
	r.deploy(other)
	stop := r.run(t)
	require.Eventually(t, func() bool {
		_, first := r.condition("edge")
		_, second := r.condition("other")
		return first && second
	}, patience, time.Millisecond)
	stop()
	c, _ := r.condition("edge")
	require.Equal(t, reasonFailed, c.Reason)
	require.Contains(t, c.Message, "Deployment edge-lateen: its Pods get no proxy")
	require.Contains(t, c.Message, "Service edge-lateen: ")
	_, err := r.client.CoreV1().ServiceAccounts(r.namespace).Get(t.Context(), g.Name, metav1.GetOptions{})
	require.NoError(t, err)
	r.deployment(t, other.Name)
	c, _ = r.condition("other")
	require.Zero(t, c)
}

// hanging never answers requests with a text in their path; it waits until they are given up.
type hanging struct {
	text string
	http.RoundTripper
}

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, h.text) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return h.RoundTripper.RoundTrip(r)
}

// A Gateway whose requests are not answered holds up no other one.
func TestAGatewayWithoutAnswersHoldsUpNoOther(t *testing.T) {
	r := newRig(t)
	r.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return hanging{"/edge-lateen", next} })
	r.deploy(r.gateway(t, "edge"))
	for _, name := range []string{"first", "second"} {
		r.deploy(r.gateway(t, name))
		require.Zero(t, r.once(t, name))
		r.deployment(t, name+"-lateen")
	}
}

func TestWhatIsEqualIsNotPassedOn(t *testing.T) {
	d, calls := NewDeployments(), 0
	g := &model.GatewayDeployment{Gateway: model.Meta{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "b"}}
	equal := *g
	k := g.Gateway.Key()
	d.Compiled(k, g)
	require.Len(t, d.listen(func(source.Key) { calls++ }), 1)
	d.Compiled(k, &equal)
	require.Zero(t, calls)
	d.Compiled(k, nil)
	d.Compiled(k, nil)
	require.Equal(t, 1, calls)
	require.Nil(t, d.get(k))
}

// Annotations of a Gateway's infrastructure do not steer the injection of its Pods.
func TestInjectionIsNotSteered(t *testing.T) {
	for key, steers := range map[string]bool{
		"proxy.istio.io/overrides": true, "sidecar.istio.io/status": true, "istio.io/rev": true,
		"example.com/note": false, "note": false, "notistio.io/note": false,
	} {
		require.Equal(t, steers, steersInjection(key), key)
	}
}
