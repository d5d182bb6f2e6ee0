package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

const referencePage = "../../../docs/reference/values.md"

// TestPageHasTheValues: the tables of docs/reference/values.md are made of the charts' schemas and
// values.
func TestPageHasTheValues(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	require.NoError(t, err)
	text := string(page)
	for _, name := range []string{Lateen, Gateway} {
		begin, end := "<!-- values of "+name+" -->\n", "<!-- end of values -->\n"
		before, rest, begun := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		require.True(t, begun && ended, "the page lacks the lines around the values of %s", name)
		text = before + begin + table(t, name) + end + after
	}
	golden.File(t, referencePage, text)
}

func table(t *testing.T, name string) string {
	schema, err := SchemaOf(name)
	require.NoError(t, err)
	values, err := Defaults(name)
	require.NoError(t, err)
	var rows strings.Builder
	rows.WriteString("| value | default | what |\n|---|---|---|\n")
	var visit func(path string, node map[string]any, value any)
	visit = func(path string, node map[string]any, value any) {
		if node["$ref"] != nil || isOfIstio(node) {
			return // the same as below pilot, or of no use
		}
		below, _ := node["properties"].(map[string]any)
		of, _ := value.(map[string]any)
		if description, ok := node["description"].(string); ok && (len(below) == 0 || path == "pilot.resources") {
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", path, shown(t, value), description)
			if path == "pilot.resources" {
				return
			}
		}
		for _, key := range slices.Sorted(maps.Keys(below)) {
			visit(join(path, key), below[key].(map[string]any), of[key])
		}
	}
	visit("", schema.properties, values)
	return rows.String()
}

// shown is a default as YAML in one line.
func shown(t *testing.T, value any) string {
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	if text := string(raw); !slices.Contains([]string{"null", `""`, "{}", "[]"}, text) {
		return "`" + strings.Trim(text, `"`) + "`"
	}
	return ""
}
