package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// ConfigMaps are read as far as objects name them, of these the authorities, and before the source
// says that it knows all.
func TestConfigMapsAreReadWhileTheyAreNamed(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true}) // others define fewer kinds
	api.InstallGatewayAPICRDs(t)
	ns := api.Namespace(t, nil)
	core, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	for _, name := range []string{"ca", "other"} {
		_, err := core.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"ca.crt": name, "more": "text"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	client, err := dynamic.NewForConfig(api.Config())
	require.NoError(t, err)
	policies := client.Resource(resourceIn(kinds.GatewayAPIGroup, "v1", "backendtlspolicies")).Namespace(ns)
	policy := object(kinds.GatewayAPIGroup+"/v1", "BackendTLSPolicy", ns, "p")
	naming := func(o *unstructured.Unstructured, configMap string) {
		require.NoError(t, unstructured.SetNestedField(o.Object, map[string]any{
			"targetRefs": []any{map[string]any{"group": "", "kind": "Service", "name": "s"}},
			"validation": map[string]any{
				"hostname":          "s.test",
				"caCertificateRefs": []any{map[string]any{"group": "", "kind": "ConfigMap", "name": configMap}},
			},
		}, "spec"))
	}
	naming(policy, "ca")
	written, err := policies.Create(t.Context(), policy, metav1.CreateOptions{})
	require.NoError(t, err)

	s := run(t, kube.Options{Config: api.Config(), RootNamespace: "istio-system", ConfigMap: "istio"})
	s.awaitSync()
	data := func(name string) map[string]string {
		o, _ := s.get(source.Key{Kind: kinds.ConfigMap, Namespace: ns, Name: name}).(*corev1.ConfigMap)
		if o == nil {
			return nil
		}
		return o.Data
	}
	require.Equal(t, map[string]string{"ca.crt": "ca"}, data("ca"))
	require.Nil(t, data("other"))

	naming(written, "other")
	_, err = policies.Update(t.Context(), written, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool { return data("ca") == nil && data("other")["ca.crt"] == "other" })
	require.NoError(t, policies.Delete(t.Context(), "p", metav1.DeleteOptions{}))
	eventually(t, func() bool { return data("other") == nil })
}
