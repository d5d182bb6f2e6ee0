package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

const module = "github.com/lateen-mesh/lateen/"

// anything may be imported by cmd and by packages that only tests use.
func anything(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "test/") ||
		strings.HasPrefix(pkg, "internal/testkit") ||
		pkg == "internal/translate/translatetest"
}

// TestResourcesKnowNoMesh: xds/resource takes hash-consed lists and the names of placeholders of
// model, and nothing that says what a mesh is.
func TestResourcesKnowNoMesh(t *testing.T) {
	allowed := []string{"List", "OwnPod", "OwnAny4", "OwnAny6", "OwnApp", "OwnOutbound"}
	files, err := filepath.Glob("../../internal/xds/resource/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "model" {
					require.Contains(t, allowed, s.Sel.Name, name)
				}
			}
			return true
		})
	}
}

func TestImportsPointLeft(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").CombinedOutput()
	require.NoError(t, err, string(out))
	seen, rules := map[string]bool{}, mayImport()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		seen[pkg] = true
		if anything(pkg) {
			continue
		}
		name := strings.TrimPrefix(pkg, "internal/")
		allowed, listed := rules[name]
		require.True(t, listed, "%s has no place in the flow: say in rules_test.go what it may import", pkg)
		for _, imported := range fields[1:] {
			if own, ok := strings.CutPrefix(imported, module); ok {
				require.True(t, slices.Contains(allowed, strings.TrimPrefix(own, "internal/")),
					"%s imports %s, which does not stand to its left", pkg, own)
			}
		}
	}
	for pkg := range rules {
		require.True(t, seen[directory(pkg)], "%s is listed, but there is no such package", pkg)
	}
}

// TestProgramsLinkWhatTheyNeed: what renders charts and what sends requests are programs of their
// own, so that the others are built without these libraries; servers have no tools.
func TestProgramsLinkWhatTheyNeed(t *testing.T) {
	for program, forbidden := range map[string][]string{
		"lateen":           {"helm.sh/helm", "fortio.org/"},
		"lateen-agent":     {"helm.sh/helm", "fortio.org/"},
		"lateen-installer": {"fortio.org/"},
		"lateen-perf":      {"helm.sh/helm"},
		"lateen-discovery": {"helm.sh/helm", "fortio.org/", module + "internal/perf", module + "internal/local",
			module + "internal/observe/advise", module + "charts"},
	} {
		out, err := exec.Command("go", "list", "-tags", lateenserve.Tags, "-deps", module+"cmd/"+program).
			CombinedOutput()
		require.NoError(t, err, string(out))
		for _, prefix := range forbidden {
			require.NotContains(t, string(out), "\n"+prefix, "%s links %s", program, prefix)
		}
	}
}

// TestTheAgentIsNoControlPlane: a Pod's agent has to stay small, so it takes nothing of the product
// but what was made for it, and none of the large libraries.
func TestTheAgentIsNoControlPlane(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", lateenserve.Tags, "-deps", module+"cmd/lateen-agent").
		CombinedOutput()
	require.NoError(t, err, string(out))
	own := []string{"cmd/lateen-agent", "internal/agent", "internal/xds/typeurl", "internal/xds/nametable",
		"internal/xds/proxystats", "internal/observe/footprint", "internal/api/compliance"}
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		if name, ours := strings.CutPrefix(pkg, module); ours {
			require.True(t, slices.Contains(own, name) || strings.HasPrefix(name, "internal/agent/"),
				"the agent imports %s of the control plane", name)
		}
		for _, large := range []string{
			"k8s.io/", "sigs.k8s.io/", "istio.io/", "github.com/envoyproxy/", "github.com/spf13/cobra", "text/template",
		} {
			require.False(t, strings.HasPrefix(pkg, large), "the agent imports %s", pkg)
		}
	}
}
