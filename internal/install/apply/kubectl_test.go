package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string,
) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
	}
}

// What kubectl apply has made as lateen manifest prints it is taken over, and nothing else: neither
// what other commands of kubectl have set, nor what somebody has applied beside it.
func TestOnlyWhatKubectlHasAppliedIsTakenOver(t *testing.T) {
	const owns = `{"f:metadata":{"f:labels":{"f:` + OwnerLabel + `":{}}}}`
	const spec = `{"f:spec":{"f:minReplicas":{}}}`
	const update, apply = metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
	for name, c := range map[string]struct {
		entry    metav1.ManagedFieldsEntry
		revision string
		want     bool
	}{
		"applied on the client's side":    {entry(kubectlApply, update, "", owns), "default", true},
		"applied on the server's side":    {entry(kubectlServerApply, apply, "", owns), "default", true},
		"of another revision":             {entry(kubectlApply, update, "", owns), "canary", false},
		"by kubectl scale":                {entry("kubectl", update, "scale", spec), "default", false},
		"by kubectl edit":                 {entry("kubectl-edit", update, "", owns), "default", false},
		"something of its own":            {entry(kubectlApply, update, "", spec), "default", false},
		"something, on the server's side": {entry(kubectlServerApply, apply, "", spec), "default", false},
		"unreadable":                      {entry(kubectlApply, update, "", "{"), "default", false},
	} {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{Object: map[string]any{}}
			live.SetLabels(map[string]string{OwnerLabel: "default"})
			live.SetManagedFields([]metav1.ManagedFieldsEntry{c.entry})
			require.Equal(t, c.want, wasApplied(live, c.revision))
		})
	}
	for who, want := range map[string]bool{
		`"kubectl"`: true, `"kubectl-client-side-apply" using apps/v1`: true,
		`"kubectl" with subresource "scale" using apps/v1`: false, `"kubectl-edit" using apps/v1`: false, `"helm"`: false,
	} {
		require.Equal(t, want, isWithKubectl(who), who)
	}
}

func TestFieldsThatNobodyAsksForAreDropped(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetAnnotations(map[string]string{lastApplied: `{
		"metadata": {"annotations": {}},
		"spec": {"replicas": 2, "template": {
			"tolerations": [{"key": "a"}],
			"containers": [{"name": "x", "env": [{"name": "A"}, {"name": "B", "value": "1"}]}, {"name": "y"}]}}}`})
	asked := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"containers": []any{map[string]any{"name": "x", "env": []any{map[string]any{"name": "B"}}}},
	}}}}
	require.Equal(t, []string{
		"spec.replicas", "spec.template.containers[x].env[A]", "spec.template.containers[x].env[B].value",
		"spec.template.containers[y]", "spec.template.tolerations",
	}, dropped(live, asked))
	require.Empty(t, dropped(&unstructured.Unstructured{Object: map[string]any{}}, asked))
}
