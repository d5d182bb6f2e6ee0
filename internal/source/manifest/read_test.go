package manifest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/types/known/durationpb"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestProblems reads the manifests of each case and compares the keys of the objects read, and what
// is said to be wrong. One case is one file in testdata/problems.
func TestProblems(t *testing.T) {
	cases(t, "testdata/problems", func(documents []Document, problems []source.Problem) string {
		var out strings.Builder
		for _, d := range documents {
			fmt.Fprintf(&out, "%s at %s\n", d.Key, d.Origin)
		}
		for _, p := range problems {
			fmt.Fprintln(&out, p)
		}
		return out.String()
	})
}

// TestObjects reads the manifests of each case and compares the typed objects, written as YAML
// again.
func TestObjects(t *testing.T) {
	cases(t, "testdata/objects", func(documents []Document, problems []source.Problem) string {
		var out strings.Builder
		for _, d := range documents {
			text, err := yaml.Marshal(d.Object)
			require.NoError(t, err)
			fmt.Fprintf(&out, "--- # %s at %s\n%s", d.Key, d.Origin, text)
		}
		for _, p := range problems {
			fmt.Fprintln(&out, p)
		}
		return out.String()
	})
}

// cases runs the cases of a directory: each is an archive of manifests.
func cases(t *testing.T, dir string, show func([]Document, []source.Problem) string) {
	golden.Archives(t, dir, func(t *testing.T, in *txtar.Archive) string {
		var got strings.Builder
		for _, f := range in.Files {
			got.WriteString(show(Read(f.Name, f.Data)))
		}
		return got.String()
	})
}

func TestReadTypes(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha3"} {
		documents,
			problems := Read("a.yaml", []byte(`{apiVersion: networking.istio.io/`+version+`, kind: VirtualService,
			metadata: {name: a}, spec: {http: [{timeout: 1h30m}]}}`))
		require.Empty(t, problems)
		vs := documents[0].Object.(*networkingv1.VirtualService)
		require.Equal(t, durationpb.New(90*time.Minute).GetSeconds(), vs.Spec.Http[0].Timeout.Seconds)
		require.Equal(t, "default", vs.Namespace)
	}
}

// A walk over JSON and one over YAML give the same object, and the order of fields makes no
// difference.
func TestReadContent(t *testing.T) {
	forms := map[string]string{
		"a.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {x: \"1\", y: z}}\nspec:\n  " +
			"ports:\n  - port: 0x50\n",
		"b.yaml": "kind: Service\napiVersion: v1\nspec: {ports: [{port: 80, name: }]}\nmetadata: {labels: {y: z, " +
			"x: '1'}, name: a}\n",
		"c.json": "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\n\t" +
			"\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"1\",\"y\":\"\\u007a\"}}," +
			"\"spec\":{\"ports\":[{\"port\":80}]}}",
	}
	var contents []string
	for name, text := range forms {
		documents, problems := Read(name, []byte(text))
		require.Empty(t, problems)
		contents = append(contents, string(documents[0].JSON))
	}
	require.Len(t, slices.Compact(contents), 1, contents)
}

func TestReadTooLarge(t *testing.T) {
	documents, problems := Read("a.yaml", make([]byte, MaxFileSize+1))
	require.Empty(t, documents)
	require.Len(t, problems, 1)
	require.Equal(
		t, "error: a.yaml: the file has 16777217 bytes; want at most 16777216 (16 MiB) in one file",
		problems[0].String(),
	)
}

func TestReadAliasBomb(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n",
	)
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&bomb, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(
			strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", ",
		))
	}
	for _, text := range []string{bomb.String(), "&x [*x]", "a: &x {<<: *x}"} {
		documents, problems := Read("a.yaml", []byte(text))
		require.Empty(t, documents)
		require.Len(t, problems, 1)
		require.Contains(t, problems[0].Message, "aliases")
	}
}

func TestReadManyProblems(t *testing.T) {
	_, problems := Read("a.yaml", []byte(strings.Repeat("- x\n---\n", 10_000)))
	require.Len(t, problems, maxProblems+1)
	require.Equal(t, "and 9800 more problems in this file", problems[maxProblems].Message)
}

func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"testdata/problems/*.txtar", "testdata/objects/*.txtar"} {
		cases, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, name := range cases {
			archive, err := txtar.ParseFile(name)
			require.NoError(f, err)
			for _, file := range archive.Files {
				f.Add(strings.HasSuffix(file.Name, ".json"), file.Data)
			}
		}
	}
	f.Add(false, threeDocuments(f))
	f.Fuzz(func(t *testing.T, isJSON bool, data []byte) {
		name := "a.yaml"
		if isJSON {
			name = "a.json"
		}
		documents, problems := Read(name, data)
		for _, p := range problems {
			require.NotEmpty(t, p.Message)
		}
		for _, d := range documents {
			require.Equal(t, d.Key.Name, d.Object.GetName())
			require.Equal(t, d.Key.Namespace, d.Object.GetNamespace())
			again := Document{Key: d.Key, JSON: d.JSON}
			require.NoError(t, again.Decode(), "what was read can be recorded")
		}
	})
}
