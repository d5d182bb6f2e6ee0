package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository's, seen from this package.
const root = "../.."

// insertion is text that goes into a file at an offset; of several at one offset that of the lower rank comes first.
type insertion struct {
	at, rank int
	text     string
}

// writeOverlay writes the sources with all faults in them, each behind a condition, and the file that go test -overlay reads. The
// faults are numbered from 1.
func writeOverlay(t *testing.T, edges []fault) (path string) {
	dir := t.TempDir()
	insertions := map[string][]insertion{}
	for i, f := range edges {
		insertions[f.file] = append(insertions[f.file], f.insertions(t, i+1)...)
	}
	replace := map[string]string{}
	add := func(file, content string) {
		written := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(written, []byte(content), 0o644))
		original, err := filepath.Abs(filepath.Join(root, "internal", file))
		require.NoError(t, err)
		replace[original] = written
	}
	sources := map[string]string{}
	for file, list := range insertions {
		sources[file] = inserted(readSource(t, file), list)
	}
	for _, h := range hooks {
		if sources[h.file] == "" {
			sources[h.file] = readSource(t, h.file)
		}
		require.Equal(t, h.times, strings.Count(sources[h.file], h.text), "%s in %s: mend hooks in fields_test.go", h.text, h.file)
		sources[h.file] = strings.ReplaceAll(sources[h.file], h.text, h.by)
	}
	packages := map[string]bool{}
	for file, source := range sources {
		add(file, source)
		packages[filepath.Dir(file)] = true
	}
	for pkg := range packages {
		add(pkg+"/mutants_overlay.go", strings.Replace(helpers, "PACKAGE", filepath.Base(pkg), 1))
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, encoded, 0o644))
	return path
}

func readSource(t *testing.T, file string) string {
	source, err := os.ReadFile(filepath.Join(root, "internal", file))
	require.NoError(t, err)
	return string(source)
}

func inserted(source string, list []insertion) string {
	slices.SortStableFunc(list, func(a, b insertion) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
	var b strings.Builder
	last := 0
	for _, i := range list {
		b.WriteString(source[last:i.at])
		b.WriteString(i.text)
		last = i.at
	}
	b.WriteString(source[last:])
	return b.String()
}

// insertions put the fault's text behind a condition. Faults may stand within each other: the wider one comes first, and ends
// last.
func (f fault) insertions(t *testing.T, number int) []insertion {
	begin, end := f.find(t)
	before, after := fmt.Sprintf("if !mutant(%d) { ", number), " }"
	if f.instead != "" {
		before, after = fmt.Sprintf("mutantElse(%d, %s, ", number, f.instead), ")"
	}
	width := end - begin
	return []insertion{{begin, 2_000_000 - 1000*width + number, before}, {end, 1000*width - number, after}}
}

// find is where the fault's text stands in its file.
func (f fault) find(t *testing.T) (begin, end int) {
	source := readSource(t, f.file)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, f.file, source, 0)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || functionName(fn) != f.function {
			continue
		}
		from, to := files.Position(fn.Body.Pos()).Offset, files.Position(fn.Body.End()).Offset
		body := source[from:to]
		count := strings.Count(body, f.text)
		if f.nth == 0 {
			require.Equal(t, 1, count, "%s in %s of %s (%s): mend the list of faults", f.text, f.function, f.file, f.what)
		}
		require.GreaterOrEqual(t, count, f.nth, "%s in %s of %s (%s): mend the list of faults", f.text, f.function, f.file, f.what)
		at := -1
		for range max(1, f.nth) {
			at += 1 + strings.Index(body[at+1:], f.text)
		}
		return from + at, from + at + len(f.text)
	}
	require.Fail(t, "no such function", "%s in %s (%s): mend the list of faults", f.function, f.file, f.what)
	return 0, 0
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
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	return typ.(*ast.Ident).Name + "." + fn.Name.Name
}

// helpers stand in each package that has faults.
const helpers = `package PACKAGE

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

var (
	mutantNumber = os.Getenv("LATEEN_MUTANT")       // of the edge that is cut
	mutantField  = os.Getenv("LATEEN_MUTANT_FIELD") // "site type path" of the field that is not looked at
	mutantShow   = os.Getenv("LATEEN_MUTANT_SHOW") != "" // tell all fields
	mutantSeen   sync.Map
)

func mutant(n int) bool { return mutantNumber != "" && mutantNumber == fmt.Sprint(n) }

func mutantElse[T any](n int, instead, original T) T {
	if mutant(n) {
		return instead
	}
	return original
}

// mutantKey is a key without the field that is not looked at.
func mutantKey[T any](site string, key T) T {
	if mutantField == "" && !mutantShow {
		return key
	}
	v := reflect.ValueOf(&key).Elem()
	if v.Kind() != reflect.Struct {
		return key
	}
	at := site + " " + v.Type().String() + " "
	if mutantShow {
		if _, seen := mutantSeen.LoadOrStore(at, true); !seen {
			mutantTell(at, v.Type())
		}
		return key
	}
	path, ok := strings.CutPrefix(mutantField, at)
	if !ok {
		return key
	}
	for _, name := range strings.Split(path, ".") {
		f := v.FieldByName(name)
		v = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
	}
	v.SetZero()
	return key
}

// mutantTell tells the fields of a key: those of structs within it one by one, but for values that are opaque.
func mutantTell(at string, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Struct && f.Type.Field(0).Name != "text" {
			mutantTell(at+f.Name+".", f.Type)
			continue
		}
		fmt.Fprintln(os.Stderr, "\nMUTANT_FIELD "+at+f.Name)
	}
}

// mutantSkips tells whether an equality does not look at a field.
func mutantSkips(t reflect.Type, i int) bool {
	if mutantField == "" && !mutantShow {
		return false
	}
	at := "equality " + t.String() + " " + t.Field(i).Name
	if mutantShow && t.Field(i).Name != "text" && !(t.Field(i).Anonymous) {
		if _, seen := mutantSeen.LoadOrStore(at, true); !seen {
			fmt.Fprintln(os.Stderr, "\nMUTANT_FIELD "+at)
		}
	}
	return mutantField == at
}

var (
	_ = mutant
	_ = mutantElse[int]
	_ = mutantKey[int]
	_ = mutantSkips
)
`
