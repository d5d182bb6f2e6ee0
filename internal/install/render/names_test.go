package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

func lateen(t *testing.T, namespace, revision string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := Release{Chart: Lateen, Name: "lateen", Namespace: namespace, Values: map[string]any{
		"revision": revision, "pilot": map[string]any{"image": "registry.example.com/lateen:v1"},
		"meshConfig": map[string]any{"trustDomain": "example.com"},
	}}.Objects()
	require.NoError(t, err)
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		all[o.GetKind()+" "+o.GetName()] = o
	}
	return all
}

// TestObjectsHaveTheNamesOfTheirControlPlane: a running control plane finds its objects by them.
func TestObjectsHaveTheNamesOfTheirControlPlane(t *testing.T) {
	for _, c := range []struct{ namespace, revision string }{
		{"istio-system", ""}, {"istio-system", "default"}, {"mesh", "canary"},
	} {
		objects, n := lateen(t, c.namespace, c.revision), install.NamesOf(c.namespace, c.revision)
		for _, want := range []string{
			"Service " + n.Service, "Deployment " + n.Deployment, "Secret " + n.Secret,
			"ServiceAccount " + n.Deployment, "PodDisruptionBudget " + n.Deployment,
			"NetworkPolicy " + n.Deployment, "HorizontalPodAutoscaler " + n.Deployment,
			"ValidatingWebhookConfiguration " + n.Webhook, "MutatingWebhookConfiguration " + n.Injector,
			"ClusterRole " + n.ClusterRole, "ClusterRoleBinding " + n.ClusterRole, "ConfigMap " + n.MeshConfig,
			"ConfigMap " + n.InjectorConfig, "Role " + n.Deployment, "RoleBinding " + n.Deployment,
		} {
			require.Contains(t, objects, want)
		}
	}
}

// TestReplicasHaveTheirLabels: replicas look for each other by ReplicaLabels.
func TestReplicasHaveTheirLabels(t *testing.T) {
	for _, revision := range []string{"", "canary"} {
		name := install.NamesOf("mesh", revision).Deployment
		deployment := lateen(t, "mesh", revision)["Deployment "+name]
		pod, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "labels")
		require.NoError(t, err)
		require.True(t, labels.SelectorFromSet(install.ReplicaLabels(revision)).Matches(labels.Set(pod)))
		require.False(t, labels.SelectorFromSet(install.ReplicaLabels("other")).Matches(labels.Set(pod)))
	}
}

func TestAuthorityHasItsName(t *testing.T) {
	objects, err := Release{Chart: Base, Name: "base", Namespace: "mesh", Values: map[string]any{
		"base": map[string]any{"enableCRDTemplates": false},
	}}.Objects()
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, ca.SelfSigned, objects[0].GetName())
	require.Equal(t, string(ca.SelfSignedType), objects[0].Object["type"])
}

// TestNetworkPolicyAllowsThePortsOfTheService also checks that it allows no other port.
func TestNetworkPolicyAllowsThePortsOfTheService(t *testing.T) {
	objects := lateen(t, "mesh", "canary")
	policy, service := objects["NetworkPolicy istiod-canary"], objects["Service istiod-canary"]
	ingress, _, _ := unstructured.NestedSlice(policy.Object, "spec", "ingress")
	require.Len(t, ingress, 1)
	served, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	var allowed, targets []any
	for _, p := range ingress[0].(map[string]any)["ports"].([]any) {
		allowed = append(allowed, p.(map[string]any)["port"])
	}
	for _, p := range served {
		targets = append(targets, p.(map[string]any)["targetPort"])
	}
	require.ElementsMatch(t, targets, allowed)
	selector, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "podSelector", "matchLabels")
	require.Equal(t, install.ReplicaLabels("canary"), selector)
}
