package model

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever field of an object differs, at any depth, the object is another: an update that changes it alone is not lost.
func TestEveryFieldCountsInTheFingerprint(t *testing.T) {
	for _, o := range []Object{
		&Service{}, &VirtualService{}, &DestinationRule{}, &Gateway{}, &Sidecar{}, &Guard{}, &Workload{}, &Namespace{}, &Node{}, &EndpointSlice{}, &MeshConfig{}, &Credential{}, &IngressClass{},
	} {
		full := reflect.New(reflect.TypeOf(o).Elem())
		fill(full.Elem(), 0)
		before := Fingerprint(full.Interface())
		twin := reflect.New(reflect.TypeOf(o).Elem())
		fill(twin.Elem(), 0)
		require.True(t, Same(full.Interface(), twin.Interface()))
		leaves := 0
		eachLeaf(full.Elem(), full.Elem().Type().String(), func(path string, leaf reflect.Value) {
			leaves++
			old := reflect.ValueOf(leaf.Interface())
			other(leaf)
			require.NotEqual(t, before, Fingerprint(full.Interface()), path)
			require.False(t, Same(full.Interface(), twin.Interface()), path)
			leaf.Set(old)
		})
		require.Equal(t, before, Fingerprint(full.Interface()))
		require.NotZero(t, leaves)
	}
}

// opaque tells that a value is a leaf, whatever is in it.
func opaque(v reflect.Value) bool {
	return v.Type() == reflect.TypeFor[Labels]() || v.Type() == reflect.TypeFor[Sensitive]()
}

// fill gives each slice one item and each pointer a value; TrafficPolicy holds itself.
func fill(v reflect.Value, depth int) {
	switch {
	case depth > 12 || opaque(v):
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
}

func eachLeaf(v reflect.Value, path string, f func(string, reflect.Value)) {
	switch {
	case opaque(v):
		f(path, v)
	case v.Kind() == reflect.Pointer && !v.IsNil():
		eachLeaf(v.Elem(), path, f)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		eachLeaf(v.Index(0), path+"[0]", f)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachLeaf(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice:
		f(path, v)
	}
}

// other gives a leaf another value than it has.
func other(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Struct:
		for _, another := range []any{LabelsOf(map[string]string{"other": "x"}), Hidden("other")} {
			if o := reflect.ValueOf(another); o.Type() == v.Type() {
				v.Set(o)
			}
		}
	default:
		if v.CanInt() {
			v.SetInt(v.Int() + 1)
		} else if v.CanUint() {
			v.SetUint(v.Uint() + 1)
		} else {
			panic(fmt.Sprintf("%s in a model type", v.Type()))
		}
	}
}
