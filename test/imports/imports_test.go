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
)

const module = "github.com/lateen-mesh/lateen/"

// mayImport says what each package of the product may import of the others. A package that is not listed fails the test, so
// that whoever adds one decides where it stands.
var mayImport = map[string][]string{
	"internal/observe":          {},
	"internal/config":           {},
	"internal/terminal":         {},
	"internal/memory":           {},
	"internal/sample":           {},
	"internal/api/kinds":        {},
	"internal/source":           {"internal/api/kinds"},
	"internal/source/memory":    {"internal/api/kinds", "internal/source"},
	"internal/source/manifest":  {"internal/api/kinds", "internal/source"},
	"internal/source/istiojson": {},
	"internal/source/kube":      {"internal/api/kinds", "internal/source", "internal/source/istiojson", "internal/observe"},
	"internal/tokenreview":      {},
	"internal/source/dir":       {"internal/api/kinds", "internal/source", "internal/source/manifest"},
	"internal/local":            {"internal/api/kinds", "internal/source"},
	"internal/link":             {"internal/source", "internal/local"},
	"internal/model":            {"internal/api/kinds", "internal/source"},
	"internal/ingest":           {"internal/api/kinds", "internal/source", "internal/source/istiojson", "internal/model"},
	"internal/admission": {
		"internal/observe", "internal/api/kinds", "internal/source", "internal/source/manifest", "internal/model", "internal/ingest",
	},
	"internal/admission/registration": {"internal/api/kinds", "internal/observe"},
	"internal/leader":                 {},
	"internal/certs":                  {},
	"internal/status":                 {"internal/observe", "internal/api/kinds", "internal/source"},
	"internal/deploy":                 {"internal/api/kinds", "internal/source/kube"},
	"internal/perf/measure":           {},
	"internal/perf/port":              {},
	"internal/perf/load":              {"internal/api/kinds", "internal/source"},
	"internal/perf/controlplane":      {"internal/api/kinds", "internal/source", "internal/link", "internal/local", "internal/perf/measure", "internal/perf/load", "internal/perf/port"},
	"internal/perf":                   {"internal/source", "internal/terminal", "internal/perf/measure", "internal/perf/load", "internal/perf/controlplane", "internal/perf/apart", "internal/perf/sidecar", "internal/perf/sizing", "internal/xds/typeurl"},
	"internal/perf/apart":             {"internal/perf/sidecar"},
	"internal/perf/sidecar":           {"internal/xds/typeurl"},
	"internal/perf/flame":             {},
	"internal/perf/sizing":            {"internal/perf/measure"},
	"internal/mesh/state":             {"internal/api/kinds", "internal/source", "internal/model"},
	"internal/mesh/validate":          {"internal/api/kinds", "internal/source", "internal/model", "internal/mesh/state"},
	"internal/mesh/schedule":          {"internal/api/kinds", "internal/source", "internal/model", "internal/ingest", "internal/mesh/state", "internal/mesh/validate"},
	"internal/scope":                  {"internal/api/kinds", "internal/source", "internal/model", "internal/mesh/state"},
	"internal/translate/pb":           {"internal/model"},
	"internal/translate/cluster":      {"internal/api/kinds", "internal/model", "internal/translate/pb"},
	"internal/translate/endpoint":     {"internal/model", "internal/translate/pb"},
	"internal/translate/listener":     {"internal/model", "internal/translate/pb"},
	"internal/translate/route":        {"internal/api/kinds", "internal/source", "internal/model", "internal/translate/pb"},
	"internal/translate/secret":       {"internal/model", "internal/translate/pb"},
	"internal/xds/typeurl":            {},
	"internal/xds/resource":           {"internal/model", "internal/xds/typeurl"},
	"internal/compile": {
		"internal/api/kinds", "internal/source", "internal/model", "internal/mesh/state", "internal/scope", "internal/translate/pb", "internal/translate/cluster",
		"internal/translate/endpoint", "internal/translate/listener", "internal/translate/route", "internal/translate/secret",
		"internal/xds/resource",
	},
	"internal/xds/session":   {"internal/xds/resource"},
	"internal/xds/fanout":    {"internal/observe", "internal/xds/resource", "internal/xds/session"},
	"internal/xds/serve":     {"internal/observe", "internal/xds/resource", "internal/xds/session", "internal/xds/fanout", "internal/xds/admission"},
	"internal/xds/admission": {},
	"internal/admin":         {"internal/observe", "internal/source", "internal/xds/resource", "internal/xds/session", "internal/xds/serve"},
	"internal/app": {
		"internal/observe", "internal/config", "internal/api/kinds", "internal/source", "internal/model", "internal/ingest", "internal/mesh/state", "internal/mesh/validate", "internal/mesh/schedule", "internal/scope",
		"internal/compile", "internal/xds/resource", "internal/xds/session", "internal/xds/fanout", "internal/xds/serve", "internal/admin", "internal/tokenreview", "internal/admission", "internal/admission/registration",
		"internal/certs", "internal/deploy", "internal/leader", "internal/status",
	},
}

// everywhere may be imported by cmd and by packages that only tests use.
func anything(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg, "internal/testkit") ||
		pkg == "internal/translate/translatetest"
}

// TestResourcesKnowNoMesh: xds/resource takes hash-consed lists and the names of placeholders of model, and nothing that
// says what a mesh is.
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
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		seen[pkg] = true
		if anything(pkg) {
			continue
		}
		allowed, listed := mayImport[pkg]
		require.True(t, listed, "%s has no place in the flow: say in mayImport what it may import, and in .golangci.yml", pkg)
		for _, imported := range fields[1:] {
			if own, ok := strings.CutPrefix(imported, module); ok {
				require.True(t, slices.Contains(allowed, own), "%s imports %s, which does not stand to its left", pkg, own)
			}
		}
	}
	for pkg := range mayImport {
		require.True(t, seen[pkg], "%s is listed, but there is no such package", pkg)
	}
}
