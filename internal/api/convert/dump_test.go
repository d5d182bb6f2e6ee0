package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// dump shows a model value as people read it: what is not zero, one field a line.
func dump(o Object) string {
	var b strings.Builder
	v := reflect.ValueOf(o).Elem()
	b.WriteString(v.Type().Name() + "\n")
	dumpFields(&b, v, "  ")
	return b.String()
}

func dumpFields(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		switch {
		case field.Anonymous:
			dumpFields(b, f, indent)
		case f.IsZero():
		default:
			dumpField(b, indent, field.Name, f)
		}
	}
}

func dumpField(b *strings.Builder, indent, name string, v reflect.Value) {
	if text, ok := plainText(v); ok {
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, text)
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			dumpField(b, indent, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Pointer:
		dumpField(b, indent, name, v.Elem())
	case reflect.Struct:
		fmt.Fprintf(b, "%s%s:\n", indent, name)
		dumpFields(b, v, indent+"  ")
	default:
		fmt.Fprintf(b, "%s%s: %v\n", indent, name, v.Interface())
	}
}

func plainText(v reflect.Value) (string, bool) {
	switch x := v.Interface().(type) {
	case model.PatchValue:
		return x.Name + " " + patchText(x), true
	case model.Labels:
		return x.String(), true
	case model.Locality:
		return x.String(), true
	case model.ScopedHost:
		return x.Namespace + "/" + string(x.Host), true
	case model.StringMatch:
		return fmt.Sprintf("%s %q", word(x.Kind, matchKinds), x.Value), true
	case model.HeaderMatch:
		return fmt.Sprintf("%s %s %q", x.Name, word(x.Match.Kind, matchKinds), x.Match.Value), true
	case model.Header:
		return fmt.Sprintf("%s: %q", x.Name, x.Value), true
	case model.Resolution:
		return word(x, "EDS Passthrough StrictDNS LogicalDNS DynamicDNS"), true
	case model.Health:
		return word(x, "Healthy Unhealthy Draining"), true
	case model.TrafficDistribution:
		return word(x, "Any PreferZone PreferNode PreferHinted"), true
	case model.Family:
		return word(x, "Any IPv4 IPv6"), true
	case model.LocalityPattern:
		return model.Locality(x).String(), true
	case model.LBKind:
		return word(x, "LeastRequest RoundRobin Random Passthrough RingHash Maglev"), true
	case model.TLSMode:
		return word(x, "Disable Simple Mutual IstioMutual Unusable"), true
	case model.ServerTLSMode:
		return word(x, "Passthrough Simple Mutual OptionalMutual IstioMutual AutoPassthrough"), true
	case model.TLSVersion:
		return word(x, "Auto 1.0 1.1 1.2 1.3"), true
	case model.MatchKind:
		return word(x, matchKinds), true
	case model.Exports:
		return dumpExports(x), true
	case model.ServicePort:
		return fmt.Sprintf("%s %d %s -> %d%s", x.Name, x.Port, x.Protocol, x.Target, x.TargetName), true
	case time.Duration:
		return x.String(), true
	case []byte:
		return fmt.Sprintf("%q", x), true
	case []string:
		return strings.Join(x, ", "), true
	case string:
		return x, true
	case fmt.Stringer:
		return x.String(), true
	}
	return "", false
}

// patchText is the value of a patch as JSON.
func patchText(v model.PatchValue) string {
	of, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(v.Type))
	if err != nil {
		return err.Error()
	}
	m := of.New().Interface()
	if err := proto.Unmarshal([]byte(v.Body), m); err != nil {
		return err.Error()
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err.Error()
	}
	return v.Type + " " + compact.String()
}

func dumpExports(e model.Exports) string {
	var words []string
	if e.All {
		words = append(words, "*")
	}
	if e.Own {
		words = append(words, ".")
	}
	if e.None {
		words = append(words, "~")
	}
	return strings.Join(append(words, e.Namespaces...), ", ")
}

func word[N ~uint8](n N, words string) string { return strings.Fields(words)[n] }

// matchKinds are the names of model.MatchKind.
const matchKinds = "exact prefix regex present pathprefix"
