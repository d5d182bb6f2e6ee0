package manifest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// schemaBuilder derives schemas from Go types and protobuf descriptors. Each type has one schema,
// which also ends the recursion of recursive types.
type schemaBuilder struct {
	types    map[reflect.Type]schema
	messages map[protoreflect.FullName]schema
}

func newSchemaBuilder() *schemaBuilder {
	return &schemaBuilder{
		types: map[reflect.Type]schema{
			typeOf[resource.Quantity]():  quantity(),
			typeOf[intstr.IntOrString](): intOrString(),
			typeOf[metav1.Time]():        timestamp(),
			typeOf[metav1.MicroTime]():   timestamp(),
			typeOf[metav1.Duration]():    duration(),
			typeOf[metav1.FieldsV1]():    anySchema{mapOnly: true},
			typeOf[[]byte]():             base64Bytes(),

			// Kubernetes' enums are plain strings in Go; the values are those of its API reference.
			typeOf[corev1.Protocol](): &enumSchema{[]string{"TCP", "UDP", "SCTP"}},
			typeOf[corev1.ServiceType](): &enumSchema{
				[]string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
			},
			typeOf[corev1.ServiceAffinity](): &enumSchema{[]string{"ClientIP", "None"}},
			typeOf[corev1.IPFamily]():        &enumSchema{[]string{"IPv4", "IPv6"}},
			typeOf[corev1.IPFamilyPolicy](): &enumSchema{
				[]string{"SingleStack", "PreferDualStack", "RequireDualStack"},
			},
			typeOf[corev1.ServiceInternalTrafficPolicy](): &enumSchema{[]string{"Cluster", "Local"}},
			typeOf[corev1.ServiceExternalTrafficPolicy](): &enumSchema{[]string{"Cluster", "Local"}},
			typeOf[corev1.RestartPolicy]():                &enumSchema{[]string{"Always", "OnFailure", "Never"}},
			typeOf[corev1.PullPolicy]():                   &enumSchema{[]string{"Always", "IfNotPresent", "Never"}},
			typeOf[corev1.URIScheme]():                    &enumSchema{[]string{"HTTP", "HTTPS"}},
			typeOf[discoveryv1.AddressType]():             &enumSchema{[]string{"IPv4", "IPv6", "FQDN"}},
		},
		messages: map[protoreflect.FullName]schema{
			"google.protobuf.Duration":    duration(),
			"google.protobuf.Timestamp":   timestamp(),
			"google.protobuf.Struct":      anySchema{mapOnly: true},
			"google.protobuf.Any":         anySchema{mapOnly: true},
			"google.protobuf.Value":       anySchema{},
			"google.protobuf.ListValue":   &listSchema{anySchema{}},
			"google.protobuf.BoolValue":   boolean(),
			"google.protobuf.StringValue": stringSchema{},
			"google.protobuf.BytesValue":  base64Bytes(),
			"google.protobuf.DoubleValue": number(),
			"google.protobuf.FloatValue":  number(),
			"google.protobuf.Int32Value":  signed(32),
			"google.protobuf.Int64Value":  orQuoted(signed(64)),
			"google.protobuf.UInt32Value": unsigned(32),
			"google.protobuf.UInt64Value": orQuoted(unsigned(64)),
		},
	}
}

// ofType returns the schema of a Go type with json tags.
func (b *schemaBuilder) ofType(t reflect.Type) schema {
	if s, ok := b.types[t]; ok {
		return s
	}
	if m, ok := reflect.New(t).Interface().(proto.Message); ok {
		return b.ofMessage(m.ProtoReflect().Descriptor())
	}
	if reflect.PointerTo(t).Implements(typeOf[json.Unmarshaler]()) {
		return anySchema{} // it has a form of its own, which its decoder checks
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.ofType(t.Elem())
	case reflect.Struct:
		return b.ofStruct(t)
	case reflect.Slice:
		return &listSchema{b.ofType(t.Elem())}
	case reflect.Map:
		return &mapSchema{b.ofType(t.Elem())}
	case reflect.String:
		return stringSchema{}
	case reflect.Bool:
		return boolean()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed(t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned(t.Bits())
	case reflect.Float32, reflect.Float64:
		return number()
	}
	return anySchema{}
}

func (b *schemaBuilder) ofStruct(t reflect.Type) schema {
	o := &objectSchema{fields: map[string]field{}}
	b.types[t] = o
	b.addFields(o, t)
	slices.Sort(o.names)
	return o
}

func (b *schemaBuilder) addFields(o *objectSchema, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "", strings.Contains(options, "inline"):
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			b.addFields(o, embedded)
		default:
			o.add(name, field{schema: b.ofType(f.Type)})
		}
	}
}

// ofMessage returns the schema of a protobuf message in its JSON form.
func (b *schemaBuilder) ofMessage(d protoreflect.MessageDescriptor) schema {
	if s, ok := b.messages[d.FullName()]; ok {
		return s
	}
	o := &objectSchema{fields: map[string]field{}}
	b.messages[d.FullName()] = o
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := field{schema: b.ofField(fd)}
		if group := fd.ContainingOneof(); group != nil && !group.IsSynthetic() {
			f.oneof = string(group.Name())
		}
		o.add(fd.JSONName(), f)
		if other := otherNames()[fd.FullName()]; other != "" {
			o.fields[other] = f // it is never what a mistake is told to want
		}
	}
	slices.Sort(o.names)
	return o
}

// otherNames are the fields of which Istio's definitions of kinds know a second name. An API server
// lets it through, and protojson reads it.
func otherNames() map[protoreflect.FullName]string {
	return map[protoreflect.FullName]string{
		"istio.networking.v1alpha3.HTTPRoute.mirror_percent": "mirror_percent",
		"istio.security.v1beta1.JWTRule.jwks_uri":            "jwks_uri",
	}
}

func (b *schemaBuilder) ofField(fd protoreflect.FieldDescriptor) schema {
	switch {
	case fd.IsMap():
		return &mapSchema{b.ofValue(fd.MapValue())}
	case fd.IsList():
		return &listSchema{b.ofValue(fd)}
	}
	return b.ofValue(fd)
}

// ofValue returns the schema of one value of a field.
func (b *schemaBuilder) ofValue(fd protoreflect.FieldDescriptor) schema {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return b.ofMessage(fd.Message())
	case protoreflect.EnumKind:
		c := &enumSchema{}
		for i := range fd.Enum().Values().Len() {
			c.values = append(c.values, string(fd.Enum().Values().Get(i).Name()))
		}
		return c
	case protoreflect.BoolKind:
		return boolean()
	case protoreflect.StringKind:
		return stringSchema{}
	case protoreflect.BytesKind:
		return base64Bytes()
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return number()
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return signed(32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return unsigned(32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return orQuoted(unsigned(64))
	default:
		return orQuoted(signed(64))
	}
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
