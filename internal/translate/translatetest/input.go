package translatetest

import (
	"reflect"
	"strings"
	"testing"
)

// RequireInput guards the rule that makes memoising by input right by construction: the struct is comparable, and it
// reaches nothing but values, canonical immutable structs and interned lists. What could change behind the memo's back or
// reach everything (a map, a function, an interface, a channel, a lock) is refused, wherever it hides.
func RequireInput(t *testing.T, in any) {
	t.Helper()
	typ := reflect.TypeOf(in)
	if !typ.Comparable() {
		t.Errorf("%s is not comparable", typ)
	}
	w := walker{t: t, seen: map[reflect.Type]bool{}}
	w.walk(typ, typ.String(), false)
}

type walker struct {
	t    *testing.T
	seen map[reflect.Type]bool
}

// walk checks a type. Slices are allowed only behind a pointer, where what they hold is immutable by the contract of
// model.Pool and model.List.
func (w *walker) walk(typ reflect.Type, at string, canonical bool) {
	w.t.Helper()
	switch kind := typ.Kind(); kind {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
	case reflect.Pointer:
		w.walk(typ.Elem(), at, true)
	case reflect.Slice:
		if !canonical {
			w.t.Errorf("%s: a slice that is not behind a canonical pointer", at)
		}
		w.walk(typ.Elem(), at+"[]", canonical)
	case reflect.Struct:
		w.fields(typ, at, canonical)
	default:
		w.t.Errorf("%s: %s in an input", at, kind)
	}
}

func (w *walker) fields(typ reflect.Type, at string, canonical bool) {
	w.t.Helper()
	if w.seen[typ] {
		return
	}
	w.seen[typ] = true
	if !strings.HasPrefix(typ.PkgPath(), "github.com/lateen-mesh/lateen/internal/") {
		w.t.Errorf("%s: %s is not a type of ours", at, typ)
		return
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		w.walk(f.Type, at+"."+f.Name, canonical)
	}
}
