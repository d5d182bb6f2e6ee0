package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository's, seen from this package.
const root = "../.."

// packages are the directories below internal in which functions are looked for, by the word that
// names them here. A package that moves, or is split, costs its line.
var packages = map[string][]string{
	"model": {"api/model"},
	// the loop, which decides when changes leave: making worlds from nothing does not show its
	// faults
	"schedule": {"mesh/schedule"},
	"scope":    {"mesh/scope"},
	"session":  {"xds/session"},
	"compile":  {"compile", "xds/resource"},
	"state":    {"mesh/state"},
	"validate": {"mesh/validate"},
}

// place is a node of a function, named by its kind in go/ast and its source: "ExprStmt m.add(x)".
type place struct {
	function string // "word.function" or "word.Type.method"
	// node is "Kind source", with the source in one line. "Kind begin…" names the one node that
	// begins so, and "Kind source #2" the second of those that read alike.
	node string
}

// function is a declared function and the file it stands in.
type function struct {
	file string // below internal
	decl *ast.FuncDecl
}

// tree is the sources of packages.
type tree struct {
	files     *token.FileSet
	sources   map[string]string     // by file below internal
	names     map[string]bool       // all identifiers
	functions map[string][]function // by the name that a place has
	packages  map[string]string     // names of packages by directory
}

func readTree(t *testing.T) *tree {
	tr := &tree{
		token.NewFileSet(), map[string]string{}, map[string]bool{}, map[string][]function{}, map[string]string{},
	}
	for word, dirs := range packages {
		for _, dir := range dirs {
			found, err := filepath.Glob(filepath.Join(root, "internal", dir, "*.go"))
			require.NoError(t, err)
			require.NotEmpty(t, found, "internal/%s: mend packages in places_test.go", dir)
			for _, path := range found {
				tr.read(t, word, dir+"/"+filepath.Base(path))
			}
		}
	}
	return tr
}

// read adds a file. Of tests it only knows the functions' names.
func (tr *tree) read(t *testing.T, word, file string) {
	source, err := os.ReadFile(filepath.Join(root, "internal", file))
	require.NoError(t, err)
	parsed, err := parser.ParseFile(tr.files, file, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil {
			name := word + "." + functionName(decl)
			tr.functions[name] = append(tr.functions[name], function{file, decl})
		}
	}
	if strings.HasSuffix(file, "_test.go") {
		return
	}
	tr.sources[file], tr.packages[filepath.Dir(file)] = string(source), parsed.Name.Name
	for n := range ast.Preorder(parsed) {
		if id, ok := n.(*ast.Ident); ok {
			tr.names[id.Name] = true
		}
	}
}

// functionName is "Name", or "Type.Name" of a method.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	return typ.(*ast.Ident).Name + "." + fn.Name.Name
}

// find finds a place: the file and the node.
func (tr *tree) find(t *testing.T, p place) (file string, node ast.Node) {
	all := tr.functions[p.function]
	require.Equal(t, 1, len(all), "functions called %s: mend the place (%s), or packages in places_test.go", p.function,
		p.node)
	fn := all[0]
	kind, source, _ := strings.Cut(p.node, " ")
	source, number := cutOrdinal(source)
	nodes := nodesOf(fn.decl)[kind]
	var found []ast.Node
	for _, n := range nodes {
		if readsAs(tr.text(fn.file, n), source) {
			found = append(found, n)
		}
	}
	if number == 0 {
		require.Len(t, found, 1, "%s: %d nodes read as %q, want one: mend the place\n%s",
			p.function, len(found), p.node, tr.listing(fn, nodes))
		return fn.file, found[0]
	}
	require.GreaterOrEqual(t, len(found), number, "%s has no %q: mend the place\n%s", p.function, p.node,
		tr.listing(fn, nodes))
	return fn.file, found[number-1]
}

var ordinal = regexp.MustCompile(` #([1-9]\d*)$`)

// cutOrdinal cuts " #2" off; without it, number is 0.
func cutOrdinal(source string) (_ string, number int) {
	found := ordinal.FindStringSubmatch(source)
	if found == nil {
		return source, 0
	}
	number, _ = strconv.Atoi(found[1]) // the expression lets digits alone through
	return strings.TrimSuffix(source, found[0]), number
}

// readsAs compares the source of a node, in one line, with that of a place.
func readsAs(text, source string) bool {
	text = strings.Join(strings.Fields(text), " ")
	if begin, ok := strings.CutSuffix(source, "…"); ok {
		return strings.HasPrefix(text, begin)
	}
	return text == source
}

// nodesOf are the nodes of a function by kind. Of names (Ident) and fields (SelectorExpr) only
// those count whose value is read as a whole: not the names of functions that are called, nor what
// stands left of a dot or an assignment.
func nodesOf(fn *ast.FuncDecl) map[string][]ast.Node {
	nodes := map[string][]ast.Node{}
	no := map[ast.Node]bool{}
	isOperand := map[ast.Node]bool{}
	for n := range ast.Preorder(fn.Body) {
		switch n := n.(type) {
		case *ast.CallExpr:
			no[n.Fun] = true
			note(isOperand, n.Args...)
		case *ast.SelectorExpr:
			no[n.X] = true
		case *ast.AssignStmt:
			note(no, n.Lhs...)
		case *ast.BinaryExpr:
			note(isOperand, n.X, n.Y)
		case *ast.UnaryExpr:
			note(isOperand, n.X)
		case *ast.IfStmt:
			note(isOperand, n.Cond)
		}
		kind := strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast.")
		switch kind {
		case "Ident":
			if !isOperand[n] {
				continue
			}
		case "SelectorExpr":
			if no[n] {
				continue
			}
		}
		nodes[kind] = append(nodes[kind], n)
	}
	return nodes
}

func note(in map[ast.Node]bool, all ...ast.Expr) {
	for _, e := range all {
		in[e] = true
	}
}

// parts are what of a node a text may name: $0 is what a method or field belongs to, $1 and $2 are
// operands or arguments. Of a loop over a method's result they are what the method belongs to, and
// the variable.
func parts(node ast.Node) []ast.Expr {
	switch n := node.(type) {
	case *ast.ExprStmt:
		return parts(n.X)
	case *ast.CallExpr:
		if method, ok := n.Fun.(*ast.SelectorExpr); ok {
			return append([]ast.Expr{method.X}, n.Args...)
		}
		return append([]ast.Expr{n.Fun}, n.Args...)
	case *ast.BinaryExpr:
		return []ast.Expr{n, n.X, n.Y}
	case *ast.IndexExpr:
		return []ast.Expr{n.X, n.Index}
	case *ast.SelectorExpr:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if call, ok := n.X.(*ast.CallExpr); ok {
			return []ast.Expr{parts(call)[0], n.Key}
		}
	}
	return nil
}

// with is a text in which $0, $1 and so on stand for a node's parts.
func (tr *tree) with(text, file string, node ast.Node) string {
	for i, part := range parts(node) {
		text = strings.ReplaceAll(text, fmt.Sprint("$", i), tr.text(file, part))
	}
	return text
}

func (tr *tree) text(file string, n ast.Node) string {
	begin, end := tr.offsets(n)
	return tr.sources[file][begin:end]
}

func (tr *tree) offsets(n ast.Node) (begin, end int) {
	return tr.files.Position(n.Pos()).Offset, tr.files.Position(n.End()).Offset
}

// listing is a table of a function's nodes.
func (tr *tree) listing(fn function, nodes []ast.Node) string {
	var b strings.Builder
	for i, n := range nodes {
		fmt.Fprintf(&b, "%4d internal/%s: %s\n", i+1, tr.files.Position(n.Pos()), tr.text(fn.file, n))
	}
	return b.String()
}

// requireNames finds the names that a text has, so that one that is gone is no riddle of the
// compiler's.
func (tr *tree) requireNames(t *testing.T, text string) {
	for _, name := range regexp.MustCompile(`[A-Za-z_]\w*`).FindAllString(text, -1) {
		require.True(t, tr.names[name] || types.Universe.Lookup(name) != nil, "nothing is called %s: mend %q", name,
			text)
	}
}
