package istiojson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Unmarshal reads JSON as protojson does, and also takes durations in Go's notation. Errors are
// protojson's.
func Unmarshal(raw []byte, m proto.Message, o protojson.UnmarshalOptions) error {
	err := o.Unmarshal(raw, m)
	if err == nil {
		return nil
	}
	converted, changed := rewriteDurations(raw, m.ProtoReflect().Descriptor())
	if !changed {
		return err
	}
	proto.Reset(m)
	return o.Unmarshal(converted, m)
}

var durationName = (*durationpb.Duration)(nil).ProtoReflect().Descriptor().FullName()

// rewriteDurations rewrites the durations in a message's JSON to seconds, as protobuf wants them,
// and reports whether there were any. Text that is no JSON stays as it is.
func rewriteDurations(raw []byte, of protoreflect.MessageDescriptor) (out []byte, changed bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return raw, false
	}
	value, changed = rewriteMessage(value, of)
	if !changed {
		return raw, false
	}
	out, err := json.Marshal(value)
	return out, err == nil
}

// rewriteMessage returns the JSON value of a message with its durations in seconds.
func rewriteMessage(value any, of protoreflect.MessageDescriptor) (out any, changed bool) {
	if of.FullName() == durationName {
		return seconds(value)
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return value, false
	}
	for name, v := range fields {
		field := of.Fields().ByJSONName(name)
		if field == nil {
			field = of.Fields().ByTextName(name)
		}
		if field == nil || field.Message() == nil {
			continue
		}
		now, differs := rewriteField(v, field)
		fields[name], changed = now, changed || differs
	}
	return fields, changed
}

// rewriteField does the same for the value of a field, which may be a list or a map.
func rewriteField(value any, field protoreflect.FieldDescriptor) (out any, changed bool) {
	of := field.Message()
	if field.IsMap() {
		if of = field.MapValue().Message(); of == nil {
			return value, false
		}
	}
	switch v := value.(type) {
	case []any:
		for i := range v {
			now, differs := rewriteMessage(v[i], of)
			v[i], changed = now, changed || differs
		}
		return v, changed
	case map[string]any:
		if field.IsMap() {
			for key := range v {
				now, differs := rewriteMessage(v[key], of)
				v[key], changed = now, changed || differs
			}
			return v, changed
		}
	}
	return rewriteMessage(value, of)
}

func seconds(value any) (out any, changed bool) {
	text, ok := value.(string)
	if !ok {
		return value, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return value, false
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s", true
}
