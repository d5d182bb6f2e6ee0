package model

import "reflect"

// Equal reports whether two model values have the same type and content, which is when their
// Fingerprints are equal. It does not allocate, and does not follow equal pointers. It panics where
// Fingerprint does.
func Equal(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.Type() == y.Type() && equalValues(x, y)
}

func equalValues(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := 0; a.UnsafePointer() != b.UnsafePointer() && i < a.Len(); i++ {
			if !equalValues(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || !a.IsNil() && !b.IsNil() && equalValues(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValues(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	default:
		return a.Equal(b)
	}
}
