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

// TestTagsOfOtherRevisionsDiffer: whoever has a tag now keeps it until somebody moves it. A tag
// with the name of the revision would inject a second proxy.
func TestTagsOfOtherRevisionsDiffer(t *testing.T) {
	webhooks := []unstructured.Unstructured{
		tagWebhook("prod", "v1"), tagWebhook("mine", "lateen"), tagWebhook("lateen", "v1"), tagWebhook("", "v1"),
	}
	verdicts := TagWebhooks(webhooks, "lateen")
	require.Len(t, verdicts, 2)
	require.Equal(t, "istio-revision-tag-prod", verdicts[0].Name)
	require.True(t, verdicts[0].Go())
	require.Contains(t, verdicts[0].Differences[0].Why, "lateen tag set prod --revision lateen --overwrite")
	require.Equal(t, "istio-revision-tag-lateen", verdicts[1].Name)
	require.False(t, verdicts[1].Go())

	require.Equal(t, []string{"lateen", "mine"}, NamesOf("lateen", webhooks))
	require.Equal(t, []string{"v2"}, NamesOf("v2", webhooks))
}

// TestALabelThatNamesNothingIsWarnedOf: nobody reads the object, and its neighbours are unharmed.
func TestALabelThatNamesNothingIsWarnedOf(t *testing.T) {
	webhooks := []unstructured.Unstructured{tagWebhook("prod", "v1")}
	checker, _ := New("istio-system", nil)
	checker.Known = Known("lateen", webhooks)
	for _, c := range []struct {
		labels map[string]string
		warned bool
	}{
		{map[string]string{"istio.io/rev": "nothing"}, true},
		{map[string]string{"istio.io/rev": "prod"}, false},
		{map[string]string{"istio.io/rev": "v1"}, false},
		{map[string]string{"istio.io/rev": "lateen"}, false},
		{map[string]string{"istio.io/rev": "nothing", "istio-injection": "disabled"}, false},
		{nil, false},
	} {
		found := checker.Unnamed(c.labels, "metadata")
		require.Equal(t, c.warned, len(found) > 0, "%v", c.labels)
		if c.warned {
			require.Equal(t, "metadata.labels[istio.io/rev]", found[0].Field)
		}
	}
	require.Nil(t, Known("lateen", nil), "files do not say which revisions there are")

	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
		"metadata": map[string]any{"name": "a", "namespace": "shop", "labels": map[string]any{"istio.io/rev": "prd"}},
		"spec": map[string]any{"hosts": []any{"a.test"}, "http": []any{map[string]any{
			"route": []any{map[string]any{"destination": map[string]any{"host": "a"}}},
		}}},
	}}
	v := checker.Check(object)
	require.Empty(t, v.Findings)
	require.Len(t, v.Warnings, 1)
	require.Equal(t, "prd", v.Warnings[0].Value)
}

// TestWorkloadsThatNameNothingAreWarnedOf: and what injection does otherwise than a workload says
// is told.
func TestWorkloadsThatNameNothingAreWarnedOf(t *testing.T) {
	injector, err := inject.New(inject.Options{Namespace: "istio-system"}, inject.Texts{})
	require.NoError(t, err)
	checker, _ := New("istio-system", nil)
	checker.Known = Known("default", []unstructured.Unstructured{tagWebhook("prod", "v1")})
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a", "namespace": "shop"},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"istio.io/rev": "prd"}},
			"spec": map[string]any{
				"securityContext": map[string]any{"runAsUser": int64(1337)},
				"containers":      []any{map[string]any{"name": "app", "image": "app"}},
			},
		}},
	}}
	v, judged := checker.Workload(injector, o, nil)
	require.True(t, judged)
	require.Len(t, v.Warnings, 1)
	require.Equal(t, "spec.template.metadata.labels[istio.io/rev]", v.Warnings[0].Field)
	require.Len(t, v.Differences, 1)
	require.Contains(t, v.Differences[0].Why, "runs as 1338")
}
