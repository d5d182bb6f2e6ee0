package convert

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestNamespacesStateABudget: numbers of proxies; what is none is told, and that of the mesh holds.
func TestNamespacesStateABudget(t *testing.T) {
	budget := func(warns, refused string) (model.ChangeBudget, []string) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "shop", Annotations: map[string]string{
				kinds.WarnsAtAnnotation: warns, kinds.RefusedAtAnnotation: refused,
			},
		}}
		key := source.Key{Kind: kinds.Namespace, Name: "shop"}
		r := New(Options{}).Convert(source.Change{Key: key, Object: namespace}, model.DefaultMesh())
		var texts []string
		for _, p := range r.Problems {
			texts = append(texts, p.Detail())
		}
		return r.Objects[0].(*model.Namespace).Budget, texts
	}
	got, problems := budget("100", "2000")
	require.Equal(t, model.ChangeBudget{Warns: 100, Refuses: 2000}, got)
	require.Empty(t, problems)
	for _, wrong := range []string{"many", "-1", "0", "1.5", ""} {
		got, problems = budget(wrong, "2000")
		require.Equal(t, model.ChangeBudget{Refuses: 2000}, got)
		require.Len(t, problems, 1)
		require.Contains(t, problems[0], "is no number of proxies")
	}
}
