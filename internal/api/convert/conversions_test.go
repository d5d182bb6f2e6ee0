package convert

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func TestEveryKindIsConverted(t *testing.T) {
	table, converter := conversions(), New(Options{})
	for _, d := range kinds.All() {
		_, has := table[d.Kind]
		require.Equal(t, !d.LocalOnly, has, "%s: a line in conversions", d.Kind)
		delete(table, d.Kind)
		result := converter.Convert(source.Change{Key: source.Key{Kind: d.Kind}, Object: d.New()}, model.DefaultMesh())
		for _, p := range result.Problems {
			require.NotEmpty(t, p.Path, "%s: the line is for another type", d.Kind)
		}
	}
	require.Empty(t, table, "lines for kinds that are not read")
}

func TestObjectsOfTheWrongTypeAreReported(t *testing.T) {
	for _, k := range []kinds.Kind{kinds.Pod, "Widget"} {
		change := source.Change{Key: source.Key{Kind: k}, Object: kinds.Service.NewObject()}
		result := New(Options{}).Convert(change, model.DefaultMesh())
		require.Empty(t, result.Objects)
		require.Len(t, result.Problems, 1)
		require.Equal(t, "*v1.Service", result.Problems[0].Value)
		require.Equal(t, source.Error, result.Problems[0].Severity)
	}
}

// Readers are used again; what one has read must not show in what it reads next.
func TestReadersKeepNothing(t *testing.T) {
	converter := New(Options{})
	bad := source.Change{Key: source.Key{Kind: kinds.Pod}, Object: kinds.Service.NewObject()}
	good := source.Change{Key: source.Key{Kind: kinds.Namespace, Name: "a"}, Object: kinds.Namespace.NewObject()}
	require.NotEmpty(t, converter.Convert(bad, model.DefaultMesh()).Problems)
	result := converter.Convert(good, model.DefaultMesh())
	require.Empty(t, result.Problems)
	require.False(t, result.Ignored)
	local := source.Change{Key: source.Key{Kind: kinds.Deployment}, Object: kinds.Deployment.NewObject()}
	require.True(t, converter.Convert(local, model.DefaultMesh()).Ignored)
	require.False(t, converter.Convert(good, model.DefaultMesh()).Ignored)
}
