package translatetest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireInput guards the rule that makes memoising by input right by construction: the struct is
// comparable, and it reaches nothing but values, canonical immutable structs and interned lists.
// What could change behind the memo's back or reach everything (a map, a function, an interface, a
// channel, a lock) is refused, wherever it hides.
func RequireInput(t *testing.T, in any) {
	t.Helper()
	require.Empty(t, faults(reflect.TypeOf(in)))
}

// faults says what keeps a type from being an input, by path.
func faults(typ reflect.Type) []string {
	w := walker{seen: map[reflect.Type]bool{}}
	if !typ.Comparable() {
		w.fault(typ.String(), "is not comparable")
	}
	w.walk(typ, typ.String(), false)
	return w.found
}

type walker struct {
	seen  map[reflect.Type]bool
	found []string
}

func (w *walker) fault(at, what string) { w.found = append(w.found, at+" "+what) }

// walk checks a type. Slices are allowed only behind a pointer, where what they hold is immutable
// by the contract of model.Pool and model.List.
func (w *walker) walk(typ reflect.Type, at string, canonical bool) {
	switch kind := typ.Kind(); kind {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
	case reflect.Pointer:
		w.walk(typ.Elem(), at, true)
	case reflect.Slice:
		if !canonical {
			w.fault(at, "is a slice that is not behind a canonical pointer")
		}
		w.walk(typ.Elem(), at+"[]", canonical)
	case reflect.Struct:
		w.fields(typ, at, canonical)
	default:
		w.fault(at, fmt.Sprintf("is a %s", kind))
	}
}

func (w *walker) fields(typ reflect.Type, at string, canonical bool) {
	if w.seen[typ] {
		return
	}
	w.seen[typ] = true
	if !strings.HasPrefix(typ.PkgPath(), "github.com/lateen-mesh/lateen/internal/") {
		w.fault(at, fmt.Sprintf("is a %s, which is none of ours", typ))
		return
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		w.walk(f.Type, at+"."+f.Name, canonical)
	}
}
