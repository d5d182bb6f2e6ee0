package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// insertion is text that goes into a file at an offset; of several at one offset that of the lower
// rank comes first.
type insertion struct {
	at, rank int
	text     string
}

// writeOverlay writes the sources with all faults in them, each behind a condition, and the file
// that go test -overlay reads. The faults are numbered from 1.
func writeOverlay(t *testing.T, tr *tree, edges []fault) (path string) {
	dir := t.TempDir()
	insertions := map[string][]insertion{}
	for i, f := range edges {
		file, list := f.insertions(t, tr, i+1)
		insertions[file] = append(insertions[file], list...)
	}
	for _, h := range hooks {
		file, list := h.insertions(t, tr)
		insertions[file] = append(insertions[file], list...)
	}
	replace := map[string]string{}
	add := func(file, content string) {
		written := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(written, []byte(content), 0o644))
		original, err := filepath.Abs(filepath.Join(root, "internal", file))
		require.NoError(t, err)
		replace[original] = written
	}
	changed := map[string]bool{}
	for file, list := range insertions {
		add(file, inserted(tr.sources[file], list))
		changed[filepath.Dir(file)] = true
	}
	for pkg := range changed {
		add(pkg+"/mutants_overlay.go", strings.ReplaceAll(helpers, "PACKAGE", tr.packages[pkg]))
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, encoded, 0o644))
	return path
}

func inserted(source string, list []insertion) string {
	slices.SortStableFunc(list, func(a, b insertion) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank))
	})
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

// insertions put the fault's node behind a condition. Faults may stand within each other: the wider
// one comes first, and ends last.
func (f fault) insertions(t *testing.T, tr *tree, number int) (file string, list []insertion) {
	file, node := tr.find(t, f.place)
	begin, end := tr.offsets(node)
	planted := fmt.Sprintf("mutant(%d) && (%s)", number, cmp.Or(f.when, "true"))
	before, after := fmt.Sprintf("if !(%s) { ", planted), " }"
	if f.instead != "" {
		before, after = fmt.Sprintf("mutantElse(%s, %s, ", planted, tr.with(f.instead, file, node)), ")"
	}
	width := end - begin
	return file, []insertion{{begin, 2_000_000 - 1000*width + number, before}, {end, 1000*width - number, after}}
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

func mutantElse[T any](planted bool, instead, original T) T {
	if planted {
		return instead
	}
	return original
}

// mutantIs tells whether two types are the same, of which one is a parameter.
func mutantIs[A, B any]() bool { return reflect.TypeFor[A]() == reflect.TypeFor[B]() }

// mutantKey is a key without the field that is not looked at.
func mutantKey[T any](site string, key T) T {
	if mutantField == "" && !mutantShow {
		return key
	}
	v := reflect.ValueOf(&key).Elem()
	if strings.HasPrefix(v.Type().Name(), "emission[") { // its other field, patches, no unit has yet
		v = reflect.NewAt(v.Field(0).Type(), unsafe.Pointer(v.Field(0).UnsafeAddr())).Elem()
	}
	if v.Kind() != reflect.Struct {
		return key
	}
	at := site + " " + mutantType(v.Type()) + " "
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

// mutantKeys are keys without the field that is not looked at.
func mutantKeys[T any](site string, keys []T) []T {
	if mutantField == "" && !mutantShow {
		return keys
	}
	all := make([]T, len(keys))
	for i, key := range keys {
		all[i] = mutantKey(site, key)
	}
	return all
}

// mutantType is a type's name, without its package if that is this one.
func mutantType(t reflect.Type) string { return strings.TrimPrefix(t.String(), "PACKAGE.") }

// mutantTell tells the fields of a key: those of structs within it one by one, but for values that
// are opaque.
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
	at := "equality " + mutantType(t) + " " + t.Field(i).Name
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
	_ = mutantKeys[int]
	_ = mutantSkips
)
`
