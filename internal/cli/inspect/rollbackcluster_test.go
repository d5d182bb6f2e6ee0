package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	istioclient "istio.io/client-go/pkg/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// TestRollbackRestoresObjects: in a real API server a changed object becomes what it was, a deleted
// one comes back, and a new one goes, after a plan of all that; who wrote them is known.
func TestRollbackRestoresObjects(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true})
	api.InstallIstioCRDs(t)
	t.Setenv("KUBECONFIG", api.Kubeconfig())
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(api.Config())
	for _, name := range []string{"istio-system", "shop"} {
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	_, err := client.CoreV1().Services("shop").Create(ctx, svc, metav1.CreateOptions{})
	require.NoError(t, err)

	routes := istioclient.NewForConfigOrDie(api.Config()).NetworkingV1().VirtualServices("shop")
	route := func(name, host, hostname string) *networkingv1.VirtualService {
		return &networkingv1.VirtualService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networking.VirtualService{
			Hosts: []string{hostname}, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{
				{Destination: &networking.Destination{Host: host}},
			}}},
		}}
	}
	as := metav1.CreateOptions{FieldManager: "argocd"}
	changed, err := routes.Create(ctx, route("changed", "web", "a.test"), as)
	require.NoError(t, err)
	_, err = routes.Create(ctx, route("gone", "web", "b.test"), as)
	require.NoError(t, err)

	m := clusterMesh(t, api)
	past := func() page.History {
		all, err := remote.Read[page.History](ctx, remote.AtAddress(m.real), page.Past,
			page.HistoryQuestion{Object: page.ObjectQuestion{Kind: "VirtualService"}}.Query())
		require.NoError(t, err)
		return all
	}
	m.await("the start is remembered", func() bool { return !past().Since.IsZero() })
	before := time.Now()
	m.await("what is made now is younger, in whole seconds", func() bool { return time.Now().Unix() > before.Unix() })
	changed.Spec.Http[0].Route[0].Destination.Host = "other"
	_, err = routes.Update(ctx, changed, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	require.NoError(t, err)
	require.NoError(t, routes.Delete(ctx, "gone", metav1.DeleteOptions{}))
	_, err = routes.Create(ctx, route("new", "web", "c.test"), as)
	require.NoError(t, err)
	m.await("three changes are remembered", func() bool {
		n := 0
		for _, g := range past().Generations {
			n += len(g.Causes)
		}
		return n == 3
	})
	writers := map[string]string{}
	for _, g := range past().Generations {
		for _, c := range g.Causes {
			writers[c.Name] = c.Manager
		}
	}
	require.Equal(t, map[string]string{"changed": "kubectl-edit", "gone": "", "new": "argocd"}, writers)

	run := func(answer string) string {
		var out strings.Builder
		cmd := rollbackCommand(console.Plain(&out), &remote.Remote{Namespace: "istio-system"})
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetArgs([]string{"--monitoring-address", m.real, "--to", before.Format(time.RFC3339Nano), "--apply"})
		require.NoError(t, cmd.ExecuteContext(ctx))
		return out.String()
	}
	require.Contains(t, run("n\n"), "nothing is changed")
	out := run("y\n")
	require.Contains(t, out, "VirtualService shop/changed  changed")
	require.Contains(t, out, "VirtualService shop/gone     created")
	require.Contains(t, out, "VirtualService shop/new  deleted")
	live, err := routes.Get(ctx, "changed", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "web", live.Spec.Http[0].Route[0].Destination.Host)
	live, err = routes.Get(ctx, "gone", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"b.test"}, live.Spec.Hosts)
	_, err = routes.Get(ctx, "new", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
}
