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

// Each object of a kind of the Gateway API that is not in force is reported for as long
// as it stands.
func TestObjectsThatAreNotInForceAreReported(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	ns := api.Namespace(t, nil)
	client, err := dynamic.NewForConfig(api.Config())
	require.NoError(t, err)
	s := run(t, kube.Options{Config: api.Config()})
	s.awaitSync()
	report := func(kind, name string) func() string {
		return func() string { return s.problem(kind + " " + ns + "/" + name) }
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

	for key := range s.everything() {
		require.NotContains(t, string(key.Kind), "UDPRoute")
	}
	require.NoError(t, routes.Delete(t.Context(), "r", metav1.DeleteOptions{}))
	eventually(t, func() bool { return report("UDPRoute", "r")() == "" })
}

// everything gives all objects that the source has delivered.
func (s *sink) everything() map[source.Key]metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}
