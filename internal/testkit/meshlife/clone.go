package meshlife

import (
	"reflect"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Clone is a copy of an object that shares nothing with it, as another process would read it.
func Clone[T any](o T) T {
	return deep(reflect.ValueOf(&o).Elem()).Interface().(T)
}

func deep(v reflect.Value) reflect.Value {
	switch {
	case v.Kind() == reflect.Interface && !v.IsNil():
		return deep(v.Elem())
	case v.Kind() == reflect.Pointer && !v.IsNil():
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(deep(v.Elem()))
		return out
	case v.Kind() == reflect.Slice && !v.IsNil():
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(deep(v.Index(i)))
		}
		return out
	case v.Kind() == reflect.Struct && !whole[v.Type()]:
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			out.Field(i).Set(deep(v.Field(i)))
		}
		return out
	}
	return v
}

// whole are structs that change as a whole: their fields make sense together alone.
var whole = map[reflect.Type]bool{
	reflect.TypeFor[model.Labels]():    true,
	reflect.TypeFor[model.Sensitive](): true,
	reflect.TypeFor[model.Exports]():   true,

	reflect.TypeFor[model.ConfigPatch](): true,
}

// tweak puts one part of other into v: mostly the smallest that differs, else a field with all
// below it.
func tweak(t *rapid.T, v, other reflect.Value) {
	differ := smallest(v, other)
	if rarely(t, 5, "whole") {
		differ = parts(v, other)
	}
	if len(differ) > 0 {
		p := rapid.SampledFrom(differ).Draw(t, "part")
		p[0].Set(p[1])
	}
}

// smallest are the pairs of parts in which two values differ, as deep down as they have parts in
// common.
func smallest(v, other reflect.Value) [][2]reflect.Value {
	var found [][2]reflect.Value
	for _, p := range parts(v, other) {
		if deeper := smallest(p[0], p[1]); len(deeper) > 0 {
			found = append(found, deeper...)
		} else {
			found = append(found, p)
		}
	}
	return found
}

// parts are the pairs of parts in which two values differ, none if they have no parts in common.
func parts(v, other reflect.Value) [][2]reflect.Value {
	var found [][2]reflect.Value
	add := func(a, b reflect.Value) {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			found = append(found, [2]reflect.Value{a, b})
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !other.IsNil() {
			add(v.Elem(), other.Elem())
		}
	case reflect.Slice:
		for i := range min(v.Len(), other.Len()) {
			add(v.Index(i), other.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !whole[v.Type()] {
				add(v.Field(i), other.Field(i))
			}
		}
	}
	return found
}
