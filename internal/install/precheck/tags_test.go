package precheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
)

// tagWebhook is the webhook that istioctl tag set makes.
func tagWebhook(tag, revision string) unstructured.Unstructured {
	o := unstructured.Unstructured{}
	o.SetKind("MutatingWebhookConfiguration")
	o.SetName("istio-revision-tag-" + tag)
	o.SetLabels(map[string]string{"istio.io/tag": tag, "istio.io/rev": revision})
	return o
}

// TestRevisionTagsAreNoGo: nobody answers to a tag once istiod is gone, so what names one would be
// outside of the mesh.
func TestRevisionTagsAreNoGo(t *testing.T) {
	webhooks := []unstructured.Unstructured{
		tagWebhook("prod", "v1"), tagWebhook("default", "v1"), tagWebhook("lateen", "v1"),
	}
	checker, _ := New("istio-system", nil)
	checker.Tags = Tags(webhooks, "lateen")
	require.Equal(t, map[string]string{"prod": "v1"}, checker.Tags)

	var names []string
	for _, v := range TagWebhooks(webhooks) {
		require.False(t, v.Go())
		names = append(names, v.Name)
	}
	require.Equal(t, []string{"istio-revision-tag-prod", "istio-revision-tag-lateen"}, names)

	for _, c := range []struct {
		labels map[string]string
		tagged bool
	}{
		{map[string]string{"istio.io/rev": "prod"}, true},
		{map[string]string{"istio.io/rev": "v1"}, false},
		{map[string]string{"istio.io/rev": "lateen"}, false},
		{map[string]string{"istio.io/rev": "prod", "istio-injection": "disabled"}, false},
		{nil, false},
	} {
		found := checker.Tagged(c.labels, "metadata")
		require.Equal(t, c.tagged, len(found) > 0, "%v", c.labels)
		if c.tagged {
			require.Equal(t, "metadata.labels[istio.io/rev]", found[0].Field)
			require.Contains(t, found[0].Why, "of the revision v1")
		}
	}

	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
		"metadata": map[string]any{"name": "a", "namespace": "shop", "labels": map[string]any{"istio.io/rev": "prod"}},
		"spec": map[string]any{"hosts": []any{"a.test"}, "http": []any{map[string]any{
			"route": []any{map[string]any{"destination": map[string]any{"host": "a"}}},
		}}},
	}}
	v := checker.Check(object)
	require.Len(t, v.Findings, 1)
	require.Equal(t, "prod", v.Findings[0].Value)
}

// TestWorkloadsOfATagAreNoGo: and what injection does otherwise than a workload says is told.
func TestWorkloadsOfATagAreNoGo(t *testing.T) {
	injector, err := inject.New(inject.Options{Namespace: "istio-system"}, inject.Texts{})
	require.NoError(t, err)
	checker, _ := New("istio-system", nil)
	checker.Tags = Tags([]unstructured.Unstructured{tagWebhook("prod", "v1")}, "default")
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a", "namespace": "shop"},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"istio.io/rev": "prod"}},
			"spec": map[string]any{
				"securityContext": map[string]any{"runAsUser": int64(1337)},
				"containers":      []any{map[string]any{"name": "app", "image": "app"}},
			},
		}},
	}}
	v, judged := checker.Workload(injector, o, nil)
	require.True(t, judged)
	require.Len(t, v.Findings, 1)
	require.Equal(t, "spec.template.metadata.labels[istio.io/rev]", v.Findings[0].Field)
	require.Len(t, v.Differences, 1)
	require.Contains(t, v.Differences[0].Why, "runs as 1338")
}
