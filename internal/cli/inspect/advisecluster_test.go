package inspect

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// clusterMesh is a control plane of a real API server, with one sidecar in the namespace "shop".
func clusterMesh(t *testing.T, api *kubeapi.Server) *adviceMesh {
	t.Helper()
	settings, err := config.FromEnv(func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	metrics := observe.New(observe.Build{Version: "test", Start: time.Now(), Now: time.Now})
	objects, err := kube.New(kube.Options{Config: api.Config(), RootNamespace: "istio-system", ConfigMap: "istio",
		Metrics: &metrics.Source, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	m := runAdviceMesh(t, app.Options{
		Source: objects, Config: settings, MeshConfigMap: "istio", Selected: true, Metrics: metrics,
	})
	m.connect("shop", 1, false)
	return m
}

// TestAdviseDiscoverySelectors: a namespace without proxies has most services. What is applied to a
// real API server takes them from the sidecar, as was promised.
func TestAdviseDiscoverySelectors(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true})
	api.InstallIstioCRDs(t)
	t.Setenv("KUBECONFIG", api.Kubeconfig())
	client := kubernetes.NewForConfigOrDie(api.Config())
	ctx := t.Context()
	for namespace, services := range map[string]int{"istio-system": 0, "shop": 3, "batch": 60} {
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		require.NoError(t, err)
		for i := range services {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("svc-", i)}}
			svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
			_, err := client.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istio"},
		Data: map[string]string{"mesh": "connectTimeout: 3s\n"}}
	_, err := client.CoreV1().ConfigMaps("istio-system").Create(ctx, configMap, metav1.CreateOptions{})
	require.NoError(t, err)

	m := clusterMesh(t, api)
	m.await("all services", func() bool { return m.clusters(".batch.") == 60 })
	before := m.clusters("outbound|")
	found := findingOf(t, m.advised(), "discovery-selectors")
	require.Contains(t, found.Remedy.ExcludeNamespaces, "batch")
	require.NotContains(t, found.Remedy.ExcludeNamespaces, "shop")
	require.NotEmpty(t, found.Remedy.ByHand, "nobody knows who is called")
	promised := effectOf(t, found, "clusters that a proxy without a Sidecar has of services")
	require.InDelta(t, before, promised.Before, 0.1)

	found.Remedy.Automatic, found.Remedy.ByHand = true, ""
	f := adviseFlags{objects: wholeCluster, remote: &remote.Remote{Namespace: "istio-system"}}
	c, err := f.readCensus(ctx)
	require.NoError(t, err)
	require.Len(t, c.Services, before)
	what, err := f.applyOne(ctx, found)
	require.NoError(t, err)
	require.Equal(t, "ConfigMap istio-system/istio", what)
	m.await("no services of others", func() bool { return m.clusters(".batch.") == 0 })
	require.InDelta(t, promised.After, m.clusters("outbound|"), 0.1)
	live, err := client.CoreV1().ConfigMaps("istio-system").Get(ctx, "istio", metav1.GetOptions{})
	require.NoError(t, err)
	require.Contains(t, live.Data["mesh"], "connectTimeout: 3s\n")
	require.Equal(t, -1, slices.IndexFunc(m.advised().Findings, func(x advise.Finding) bool {
		return x.Rule == "discovery-selectors"
	}))

	// A Sidecar is created, and found again as it should be.
	scoped := advise.Finding{Rule: "sidecar", Remedy: advise.Remedy{Automatic: true, Manifests: `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ["./svc-0.shop.svc.cluster.local", "istio-system/*"]}]}
`}}
	for range 2 {
		what, err = f.applyOne(ctx, scoped)
		require.NoError(t, err)
		require.Equal(t, "Sidecar shop/default", what)
	}
	m.await("one service", func() bool { return m.clusters("outbound|") == 1 })

	// One that somebody else has written meanwhile is left as it is.
	scoped.Remedy.Manifests = strings.ReplaceAll(scoped.Remedy.Manifests, "svc-0", "svc-1")
	_, err = f.applyOne(ctx, scoped)
	require.ErrorContains(t, err, "Sidecar shop/default is there by now with another spec, and is left as it is")
	sidecars, err := newRawAPI(api.Config())
	require.NoError(t, err)
	body, err := sidecars.get(ctx, "/apis/networking.istio.io/v1/namespaces/shop/sidecars/default")
	require.NoError(t, err)
	require.Contains(t, string(body), "svc-0.shop")
}
