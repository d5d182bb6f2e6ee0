package inject

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// header is the first document of a case: what the Injector is made of, and what is shown of the
// Pod. Without show, that is all.
type header struct {
	Namespace, Revision string
	Native              bool
	Config              map[string]any
	Values              map[string]any
	Mesh                map[string]any
	Variables           map[string]string
	Owner               Owner
	Show                []string
}

// TestGolden injects the Pod of each case. A result is injected again, which must change nothing,
// and its patch must lead from the Pod to it.
func TestGolden(t *testing.T) {
	golden.Cases(t, ".in.yaml", ".out.yaml", func(t *testing.T, path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		first, pod, ok := strings.Cut(string(text), "\n---\n")
		require.True(t, ok, "want a header, ---, and a Pod")
		var h header
		require.NoError(t, yaml.UnmarshalStrict([]byte(first), &h))
		injector, err := New(Options{Namespace: "istio-system", Revision: h.Revision, NativeSidecars: h.Native},
			Texts{Config: asYAML(t, h.Config), Values: asYAML(t, h.Values), Mesh: asYAML(t, h.Mesh)})
		if err != nil {
			return "error: |\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ") + "\n"
		}
		raw, err := yaml.YAMLToJSON([]byte(pod))
		require.NoError(t, err)
		namespace := h.Namespace
		if namespace == "" {
			namespace = "default"
		}
		in := Pod{JSON: raw, Namespace: namespace, Owner: h.Owner, Variables: h.Variables}
		result, err := injector.Inject(in)
		if err != nil {
			return "error: |\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  ") + "\n"
		}
		out := fmt.Sprintf("inject: %v # %s\n", result.Inject, result.Reason)
		if result.Warning != "" {
			out += "warning: " + result.Warning + "\n"
		}
		if !result.Inject {
			require.Nil(t, result.Patch)
			return out
		}
		requirePatch(t, raw, result)
		in.JSON = result.JSON
		again, err := injector.Inject(in)
		require.NoError(t, err)
		require.Equal(t, "[]", string(again.Patch), "injected again")
		return out + shown(t, result.JSON, h.Show)
	})
}

func requirePatch(t *testing.T, before []byte, result Result) {
	t.Helper()
	p, err := jsonpatch.DecodePatch(result.Patch)
	require.NoError(t, err)
	after, err := p.Apply(before)
	require.NoError(t, err)
	require.JSONEq(t, string(result.JSON), string(after))
}

func asYAML(t *testing.T, v map[string]any) string {
	t.Helper()
	if v == nil {
		return ""
	}
	text, err := yaml.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// shown returns parts of a Pod, in YAML: its fields by their path, elements of lists by their name.
func shown(t *testing.T, pod []byte, paths []string) string {
	t.Helper()
	var all any
	require.NoError(t, json.Unmarshal(pod, &all))
	if len(paths) == 0 {
		paths = []string{""}
	}
	var out strings.Builder
	for _, path := range paths {
		part := all
		if path != "" {
			for key := range strings.SplitSeq(path, ".") {
				part = entry(part, key)
			}
			fmt.Fprintf(&out, "# %s\n", path)
		}
		text, err := yaml.Marshal(part)
		require.NoError(t, err)
		out.Write(text)
	}
	return out.String()
}

func entry(of any, key string) any {
	switch v := of.(type) {
	case map[string]any:
		return v[key]
	case []any:
		var names []any
		for _, one := range v {
			o, _ := one.(map[string]any)
			if o["name"] == key {
				return one
			}
			names = append(names, o["name"])
		}
		if key == "names" {
			return names
		}
	}
	return nil
}
