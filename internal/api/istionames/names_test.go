package istionames

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"istio.io/api/annotation"
	"istio.io/api/label"

	"github.com/lateen-mesh/lateen/internal/testkit/code"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestEveryNameOfIstioHasARow compares the table with the lists of istio.io/api.
func TestEveryNameOfIstioHasARow(t *testing.T) {
	var want, got []string
	for _, a := range annotation.AllResourceAnnotations() {
		want = append(want, "annotation "+a.Name)
	}
	for _, l := range label.AllResourceLabels() {
		want = append(want, "label "+l.Name)
	}
	for _, n := range All() {
		got = append(got, kindOf(n)+" "+n.Name)
		require.True(t, n.Why == "" || strings.HasPrefix(n.Why, "has no effect"), n.Name)
	}
	slices.Sort(want)
	require.Equal(t, want, got)
}

// TestNamesInForceAreRead finds each name that is in force in the code or in a template.
func TestNamesInForceAreRead(t *testing.T) {
	left := map[string]bool{}
	for _, n := range All() {
		if n.Why == "" {
			left[n.Name] = true
		}
	}
	for _, dir := range []string{"../..", "../../../charts"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			skipped := e.IsDir() && (e.Name() == "testdata" || e.Name() == "testkit" || e.Name() == "istionames")
			if skipped {
				return filepath.SkipDir
			}
			read := slices.Contains([]string{".go", ".yaml", ".tpl"}, filepath.Ext(path))
			if e.IsDir() || !read || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			for name := range left {
				if strings.Contains(string(text), name) {
					delete(left, name)
				}
			}
			return err
		}))
	}
	require.Empty(t, left, "in force by the table, and nothing reads them")
}

// TestPageOfNamesIsCurrent holds the reference page; with -update it is written anew.
func TestPageOfNamesIsCurrent(t *testing.T) {
	b := &strings.Builder{}
	b.WriteString(`# Annotations and labels of Istio

Each annotation and label of istio.io/api. This page is made of the table by which the injection and
` + "`lateen precheck`" + ` tell those that have no effect.

| annotation or label | | |
|---|---|---|
`)
	for _, n := range All() {
		said := n.Why
		if said == "" {
			said = "in force"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", n.Name, kindOf(n), said)
	}
	golden.File(t, "../../../docs/reference/annotations.md", b.String())
}

// TestNodeMetadataInForceIsRead compares the table with what the control plane and the agent read.
func TestNodeMetadataInForceIsRead(t *testing.T) {
	plane, agent := code.Of(t, "../../xds/serve/*.go"), code.Of(t, "../../agent/settings/*.go")
	seen := map[string]bool{}
	for _, f := range NodeMetadata() {
		require.False(t, seen[f.Name], "%s is there twice", f.Name)
		seen[f.Name] = true
		text := plane
		if f.Agent {
			text = agent
		}
		read := strings.Contains(text, `"`+f.Name+`"`) || f.Agent && strings.Contains(text, `"ISTIO_META_`+f.Name+`"`)
		require.Equal(t, f.Agent || f.Why == "", read, f.Name)
	}
	for _, name := range regexp.MustCompile(`r\.[a-z]+\("([A-Z0-9_]+)"\)`).FindAllStringSubmatch(plane, -1) {
		require.True(t, seen[name[1]] || name[1] == "LATEEN_STATS", "%s has no row", name[1])
	}
}

// TestPageOfNodeMetadataIsCurrent holds the reference page; with -update it is written anew.
func TestPageOfNodeMetadataIsCurrent(t *testing.T) {
	b := &strings.Builder{}
	b.WriteString(`# Metadata of nodes

Each field of a node's metadata that istiod knows by name: what Istio's agent and ` + "`lateen-agent`" + `
send of a proxy, from ` + "`ISTIO_META_*`" + ` and from the Pod. Other fields are kept, and have no effect.

| field | |
|---|---|
`)
	all := NodeMetadata()
	slices.SortFunc(all, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range all {
		said := f.Why
		switch {
		case said == "" && f.Agent:
			said = "in force, by the agent"
		case said == "":
			said = "in force"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", f.Name, said)
	}
	golden.File(t, "../../../docs/reference/node-metadata.md", b.String())
}

func kindOf(n Name) string {
	if n.Label {
		return "label"
	}
	return "annotation"
}
