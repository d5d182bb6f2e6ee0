package route_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// TestInputsAreMemoKeys guards the rule that makes memoising right by construction: an input is
// comparable and reaches nothing but values, canonical model types and interned lists.
func TestInputsAreMemoKeys(t *testing.T) {
	for _, in := range []any{route.VirtualHostInput{}, route.FallbackInput{}, route.TableInput{}} {
		typ := reflect.TypeOf(in)
		require.True(t, typ.Comparable(), "%s is not comparable", typ)
		w := walker{t: t, seen: map[reflect.Type]bool{}}
		w.walk(typ, typ.String(), false)
	}
}

type walker struct {
	t    *testing.T
	seen map[reflect.Type]bool
}

// walk checks a type; inside tells that it stands behind a pointer to a model type, where slices
// are allowed: what the pointer leads to is canonical as a whole.
func (w walker) walk(typ reflect.Type, path string, inside bool) {
	if w.seen[typ] {
		return
	}
	w.seen[typ] = true
	switch typ.Kind() {
	case reflect.Struct:
		w.ours(typ, path)
		for i := range typ.NumField() {
			f := typ.Field(i)
			w.walk(f.Type, path+"."+f.Name, inside)
		}
	case reflect.Pointer:
		elem := typ.Elem()
		if !inside {
			require.Equal(
				w.t, modelPackage, elem.PkgPath(), "%s points to a %s, which is neither a model type nor a list", path,
				elem,
			)
		}
		if strings.HasPrefix(elem.Name(), "List[") {
			items, _ := elem.FieldByName("items")
			w.walk(items.Type.Elem(), path+"[]", false)
			return
		}
		w.walk(elem, path, true)
	case reflect.Slice:
		require.True(w.t, inside, "%s is a bare slice", path)
		w.walk(typ.Elem(), path+"[]", inside)
	case reflect.Map, reflect.Func, reflect.Interface, reflect.Chan, reflect.UnsafePointer, reflect.Array:
		require.Fail(w.t, "not a value", "%s is a %s", path, typ)
	}
}

const modelPackage = "github.com/lateen-mesh/lateen/internal/api/model"

func (w walker) ours(typ reflect.Type, path string) {
	switch typ.PkgPath() {
	case modelPackage,
		"github.com/lateen-mesh/lateen/internal/source",
		"github.com/lateen-mesh/lateen/internal/translate/route":
	default:
		require.Fail(w.t, "foreign type", "%s is a %s", path, typ)
	}
}
