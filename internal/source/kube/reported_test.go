package kube_test

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
)

// routeDefinition defines HTTPRoutes as an early version of the Gateway API does.
func routeDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": "udproutes.gateway.networking.k8s.io",
			"annotations": map[string]any{
				"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1538",
			},
		},
		"spec": map[string]any{
			"group": "gateway.networking.k8s.io",
			"scope": "Namespaced",
			"names": map[string]any{"kind": "UDPRoute", "plural": "udproutes", "singular": "udproute"},
			"versions": []any{map[string]any{
				"name": "v1alpha2", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
}

func resourceIn(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// Each object of a kind of Istio's or the Gateway API that is not in force is reported for as long
// as it stands.
func TestObjectsThatAreNotInForceAreReported(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	ns := api.Namespace(t, nil)
	client, err := dynamic.NewForConfig(api.Config())
	require.NoError(t, err)
	create := func(r schema.GroupVersionResource, o *unstructured.Unstructured) {
		t.Helper()
		_, err := client.Resource(r).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	plugins := resourceIn("extensions.istio.io", "v1alpha1", "wasmplugins")
	plugin := func(name string) *unstructured.Unstructured {
		o := object("extensions.istio.io/v1alpha1", "WasmPlugin", ns, name)
		require.NoError(t, unstructured.SetNestedField(o.Object, "file:///none", "spec", "url"))
		return o
	}
	create(plugins, plugin("tokens"))
	other := plugin("of-another")
	other.SetLabels(map[string]string{"istio.io/rev": "another"})
	create(plugins, other)
	lua := object("extensions.istio.io/v1alpha1", "TrafficExtension", ns, "t")
	require.NoError(t, unstructured.SetNestedField(lua.Object, "--", "spec", "lua", "inlineCode"))
	create(resourceIn("extensions.istio.io", "v1alpha1", "trafficextensions"), lua)

	s := run(t, kube.Options{Config: api.Config()})
	s.awaitSync()
	report := func(kind, name string) func() string {
		return func() string { return s.problem(kind + " " + ns + "/" + name) }
	}
	tokens, extension := report("WasmPlugin", "tokens"), report("TrafficExtension", "t")
	eventually(t, func() bool { return tokens() != "" && extension() != "" })
	require.Equal(t, "error: WasmPlugin "+ns+"/tokens: WasmPlugin of extensions.istio.io/v1alpha1 "+
		"is not used by Lateen (yet): it is not enforced", tokens())
	require.Equal(t, "warning: TrafficExtension "+ns+"/t: "+
		"TrafficExtension of extensions.istio.io/v1alpha1 is not used by Lateen (yet)", extension())
	require.Empty(t, report("WasmPlugin", "of-another")())
	for key := range s.everything() {
		require.NotContains(t, []string{"WasmPlugin", "TrafficExtension"}, string(key.Kind))
	}

	definitions := client.Resource(resourceIn("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
	_, err = definitions.Create(t.Context(), routeDefinition(), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = definitions.Delete(context.Background(), routeDefinition().GetName(), metav1.DeleteOptions{})
	})
	routes := client.Resource(resourceIn("gateway.networking.k8s.io", "v1alpha2", "udproutes")).Namespace(ns)
	eventually(t, func() bool {
		_, err := routes.Create(t.Context(), object("gateway.networking.k8s.io/v1alpha2", "UDPRoute", ns, "r"),
			metav1.CreateOptions{})
		return err == nil
	})
	eventually(t, func() bool { return report("UDPRoute", "r")() != "" }) // though it is served as v1alpha2 alone

	err = client.Resource(plugins).Namespace(ns).Delete(t.Context(), "tokens", metav1.DeleteOptions{})
	require.NoError(t, err)
	eventually(t, func() bool { return tokens() == "" })
	require.NotEmpty(t, extension())
}

// everything gives all objects that the source has delivered.
func (s *sink) everything() map[source.Key]metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}
