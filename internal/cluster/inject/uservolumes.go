package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// What the annotations for volumes hold.
const (
	volumesWanted = `volumes in JSON, as [{"name": "data", "emptyDir": {}}] or {"data": {"emptyDir": {}}}`
	mountsWanted  = `mounts in JSON, as [{"name": "data", "mountPath": "/data"}] or {"data": {"mountPath": "/data"}}`
)

// errForm says that an annotation has neither form.
var errForm = errors.New("neither a list nor an object of objects")

// elements returns the objects that an annotation holds. Istio's reference speaks of an array, and
// its template takes an object by names too. A name within an element counts before its key.
func elements(text string) ([]object, error) {
	var list []object
	if untrusted.Annotation().JSON([]byte(text), &list) == nil && list != nil {
		for n, of := range list {
			if name, ok := of["name"].(string); !ok || name == "" {
				return nil, fmt.Errorf("element %d has no name", n)
			}
		}
		return list, nil
	}
	var byName map[string]object
	if untrusted.Annotation().JSON([]byte(text), &byName) != nil || byName == nil {
		return nil, errForm
	}
	for _, name := range sortedKeys(byName) {
		of := byName[name]
		if of == nil {
			of = object{}
		}
		if _, named := of["name"]; !named {
			of["name"] = name
		}
		list = append(list, of)
	}
	return list, nil
}

// listedAs checks that each element is a T.
func listedAs[T any](want string) check {
	return func(value string) string {
		all, err := elements(value)
		for n := 0; err == nil && n < len(all); n++ {
			_, _, err = normal[T](all[n])
		}
		switch {
		case errors.Is(err, errForm):
			return want
		case err != nil:
			return want + ": " + err.Error()
		}
		return ""
	}
}

// normal returns an element as the API server reads it. Names of fields count without regard to
// case, as in Istio. The fields that Kubernetes does not know are left out and returned.
func normal[T any](element object) (out object, unknown []string, err error) {
	raw, err := json.Marshal(element)
	if err != nil {
		return nil, nil, err
	}
	var typed T
	if err := untrusted.Annotation().JSON(raw, &typed); err != nil {
		return nil, nil, err
	}
	if raw, err = json.Marshal(typed); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, nil, err
	}
	known := fieldNames(reflect.TypeFor[T]())
	for _, name := range sortedKeys(element) {
		if !known[strings.ToLower(name)] {
			unknown = append(unknown, name)
		}
	}
	return out, unknown, nil
}

// fieldNames returns the names in JSON of a struct's fields, in small letters.
func fieldNames(t reflect.Type) map[string]bool {
	all := map[string]bool{}
	for n := range t.NumField() {
		f := t.Field(n)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			for inner := range fieldNames(f.Type) {
				all[inner] = true
			}
			continue
		}
		all[strings.ToLower(name)] = true
	}
	return all
}

// userList returns the elements of an annotation for volumes or mounts.
func userList[T any](r *request, annotation string) ([]object, error) {
	text, ok := r.pod.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	all, err := elements(text)
	if err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s]: %w", annotation, err)
	}
	for n := range all {
		of, unknown, err := normal[T](all[n])
		if err != nil {
			return nil, fmt.Errorf("metadata.annotations[%s]: element %d: %w", annotation, n, err)
		}
		for _, name := range unknown {
			r.warn("metadata.annotations[%s]: element %d has the field %s, which has no effect: Kubernetes has no "+
				"such field", annotation, n, name)
		}
		all[n] = of
	}
	return all, nil
}
