package gotemplate

import (
	"maps"
	"reflect"
	"strings"
)

// methodsOf returns the names of the methods that templates may not call on data of a type, and on
// all that is in it: those that are neither getters, nor String, nor conversions of durations and
// times. A name that is that of a field too may be used.
func methodsOf(data reflect.Type) map[string]bool {
	found, fields, seen := map[string]bool{}, map[string]bool{}, map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		for _, of := range []reflect.Type{t, reflect.PointerTo(t)} {
			for i := range of.NumMethod() {
				if name := of.Method(i).Name; !harmless(name) {
					found[name] = true
				}
			}
		}
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			visit(t.Elem())
		case reflect.Map:
			visit(t.Key())
			visit(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				if f := t.Field(i); f.IsExported() {
					fields[f.Name] = true
					visit(f.Type)
				}
			}
		}
	}
	visit(data)
	maps.DeleteFunc(found, func(name string, _ bool) bool { return fields[name] })
	return found
}

func harmless(method string) bool {
	return method == "String" || strings.HasPrefix(method, "Get") || strings.HasPrefix(method, "As")
}
