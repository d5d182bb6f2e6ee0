package history

import (
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// withNumbers turns the 64-bit numbers of a message in JSON, which protojson writes as strings,
// into numbers: the schemas of Istio's CustomResourceDefinitions take nothing else.
func withNumbers(tree any, of protoreflect.MessageDescriptor) {
	values, _ := tree.(map[string]any)
	for name, v := range values {
		if field := of.Fields().ByJSONName(name); field != nil {
			values[name] = numbersIn(v, field)
		}
	}
}

// numbersIn returns the value of a field with numbers.
func numbersIn(v any, field protoreflect.FieldDescriptor) any {
	switch is := v.(type) {
	case []any:
		for i := range is {
			is[i] = numbersIn(is[i], field)
		}
	case map[string]any:
		if field.IsMap() {
			for k := range is {
				is[k] = numbersIn(is[k], field.MapValue())
			}
		} else if field.Message() != nil {
			withNumbers(is, field.Message())
		}
	case string:
		if isLong(field) {
			return json.Number(is)
		}
	}
	return v
}

// isLong tells whether a field is a 64-bit number, or a wrapper of one.
func isLong(field protoreflect.FieldDescriptor) bool {
	switch field.Kind() {
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind,
		protoreflect.Fixed64Kind:
		return true
	case protoreflect.MessageKind:
		name := field.Message().FullName()
		return name == "google.protobuf.Int64Value" || name == "google.protobuf.UInt64Value"
	default:
		return false
	}
}
