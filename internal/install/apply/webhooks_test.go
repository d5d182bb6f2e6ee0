package apply

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

var servers kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(servers.Run(m)) }

// injector is a configuration of webhooks with these names.
func injector(names ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "lateen-injector", "labels": map[string]any{partOf: lateen}},
	}}
	var all []any
	for _, name := range names {
		all = append(all, map[string]any{
			"name": name, "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
			"failurePolicy": "Fail", "matchPolicy": "Equivalent", "reinvocationPolicy": "Never",
			"timeoutSeconds":    int64(10),
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"nobody": "has"}},
			"clientConfig": map[string]any{"service": map[string]any{
				"name": "istiod", "namespace": "istio-system", "path": "/inject", "port": int64(443),
			}},
		})
	}
	o.Object["webhooks"] = all
	return o
}

// TestRenamedWebhooksReplaceTheOldOnes: also where the leader has set roots in them, which is a
// field of its own. New Pods would be asked about twice.
func TestRenamedWebhooksReplaceTheOldOnes(t *testing.T) {
	api := servers.Server(t)
	c, err := New(api.Config())
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	in := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	put := func(names ...string) (present []string) {
		objects := []*unstructured.Unstructured{injector(names...)}
		steps, err := c.Plan(t.Context(), objects, Options{Revision: "default"})
		require.NoError(t, err)
		require.NoError(t, c.Apply(t.Context(), steps, false, func(Step) {}))
		now, err := in.Get(t.Context(), "lateen-injector", metav1.GetOptions{})
		require.NoError(t, err)
		for i := range now.Webhooks {
			present = append(present, now.Webhooks[i].Name)
			now.Webhooks[i].ClientConfig.CABundle = api.Config().CAData
		}
		_, err = in.Update(t.Context(), now, metav1.UpdateOptions{FieldManager: "lateen"})
		require.NoError(t, err)
		return present
	}
	before := []string{"a.injection.lateen.io", "b.injection.lateen.io"}
	require.Equal(t, before, put(before...))
	after := []string{"a.sidecar-injector.istio.io", "b.sidecar-injector.istio.io"}
	require.Equal(t, after, put(after...))
}

// TestTagsOfOthersStay: istioctl copies the labels of the revision's webhook to that of a tag, so
// they do not tell that the tag was installed with the revision. Nor does a tag that was installed
// with another revision, and that istioctl has moved.
func TestTagsOfOthersStay(t *testing.T) {
	api := servers.Server(t)
	c, err := New(api.Config())
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	install := func(tag, revision string) {
		o := injector("a.sidecar-injector.istio.io")
		o.SetName("istio-revision-tag-" + tag)
		o.SetLabels(map[string]string{"istio.io/tag": tag, "istio.io/rev": revision, partOf: lateen})
		steps, err := c.Plan(t.Context(), []*unstructured.Unstructured{o}, Options{Revision: revision})
		require.NoError(t, err)
		require.NoError(t, c.Apply(t.Context(), steps, false, func(Step) {}))
	}
	install("own", "v2")
	install("moved", "v1")
	in := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	moved := []byte(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": {"labels": {"istio.io/rev": "v2", "` + OwnerLabel + `": "v2"}}}`)
	_, err = in.Patch(t.Context(), "istio-revision-tag-moved", types.ApplyPatchType, moved,
		metav1.PatchOptions{FieldManager: "istioctl", Force: new(true)})
	require.NoError(t, err)
	_, err = in.Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
			Name: "istio-revision-tag-theirs",
			Labels: map[string]string{
				"istio.io/tag": "theirs", "istio.io/rev": "v2", partOf: lateen, OwnerLabel: "v2",
			},
		}}, metav1.CreateOptions{FieldManager: "istioctl"})
	require.NoError(t, err)
	left, err := c.Leftovers(t.Context(), nil, "v2")
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "MutatingWebhookConfiguration istio-revision-tag-own", Name(left[0].Object))
}
