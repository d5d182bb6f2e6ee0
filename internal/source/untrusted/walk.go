package untrusted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// checkQuantities returns an error that names the first costly quantity among the fields of a type.
// Other fields may hold such a text: a commit such as 12e45678 is a label of many Pods. It reads
// token by token, because a decoder reads each of two fields of the same name. What is no JSON is
// left to the decoder.
func checkQuantities(raw []byte, into any) error {
	w := walk{decoder: json.NewDecoder(bytes.NewReader(raw))}
	w.decoder.UseNumber()
	if w.value(reflect.TypeOf(into), nil); w.found != nil {
		return w.found
	}
	return nil
}

// walk reads JSON beside the type that it is decoded into. Its depth has been checked.
type walk struct {
	decoder *json.Decoder
	found   error
}

// place is where a value stands: a name or an index below another place.
type place struct {
	above *place
	step  string
}

func (p *place) String() string {
	if p == nil {
		return ""
	}
	return strings.TrimPrefix(p.above.String()+p.step, ".")
}

// value reads a value of a type, which is nil for one without quantities. It reports whether there
// is more to read.
func (w *walk) value(of reflect.Type, at *place) bool {
	token, err := w.decoder.Token()
	if err != nil {
		return false
	}
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return w.object(of, at)
		}
		return w.list(of, at)
	case string:
		return w.scalar(of, at, t)
	case json.Number:
		return w.scalar(of, at, t.String())
	}
	return true
}

func (w *walk) scalar(of reflect.Type, at *place, text string) bool {
	if of == reflect.TypeFor[resource.Quantity]() && isCostly(text) {
		w.found = fmt.Errorf("%s = %q; want a quantity, as 100m or 128Mi: %w", at, shortened(text), ErrCostly)
		return false
	}
	return true
}

func (w *walk) object(of reflect.Type, at *place) bool {
	for w.decoder.More() {
		token, err := w.decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok || !w.value(typeOfField(of, name), &place{at, stepTo(of, name)}) {
			return false
		}
	}
	_, err := w.decoder.Token()
	return err == nil
}

func (w *walk) list(of reflect.Type, at *place) bool {
	if of != nil && (of.Kind() == reflect.Slice || of.Kind() == reflect.Array) {
		of = of.Elem()
	} else {
		of = nil
	}
	for n := 0; w.decoder.More(); n++ {
		if !w.value(of, &place{at, fmt.Sprintf("[%d]", n)}) {
			return false
		}
	}
	_, err := w.decoder.Token()
	return err == nil
}

// stepTo names a field, or a key of a map.
func stepTo(of reflect.Type, name string) string {
	if of != nil && of.Kind() == reflect.Map {
		return "[" + shortened(name) + "]"
	}
	return "." + shortened(name)
}

// typeOfField returns the type of a field by its name in JSON, nil if there is none. It has no
// regard to case, so that it holds for each decoder.
func typeOfField(of reflect.Type, name string) reflect.Type {
	switch {
	case of == nil:
		return nil
	case of.Kind() == reflect.Map:
		return of.Elem()
	case of.Kind() != reflect.Struct:
		return nil
	}
	for _, f := range reflect.VisibleFields(of) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" && !f.Anonymous {
			tag = f.Name
		}
		if strings.EqualFold(tag, name) {
			return f.Type
		}
	}
	return nil
}

// shortened returns a text as messages have it.
func shortened(text string) string {
	const most = 64
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
