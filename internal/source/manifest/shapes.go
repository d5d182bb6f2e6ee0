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

// shapeBuilder derives shapes from Go types and protobuf descriptors. Each type has one shape, which also ends
// the recursion of types that hold themselves.
type shapeBuilder struct {
	types    map[reflect.Type]shape
	messages map[protoreflect.FullName]shape
}

func newShapeBuilder() *shapeBuilder {
	return &shapeBuilder{
		types: map[reflect.Type]shape{
			typeOf[resource.Quantity]():  quantity(),
			typeOf[intstr.IntOrString](): intOrString(),
			typeOf[metav1.Time]():        timestamp(),
			typeOf[metav1.MicroTime]():   timestamp(),
			typeOf[metav1.Duration]():    duration(),
			typeOf[metav1.FieldsV1]():    anything{mapOnly: true},
			typeOf[[]byte]():             base64Bytes(),

			// The Go types of Kubernetes' enums are plain strings; their values stand in its API reference.
			typeOf[corev1.Protocol]():                     &choice{[]string{"TCP", "UDP", "SCTP"}},
			typeOf[corev1.ServiceType]():                  &choice{[]string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}},
			typeOf[corev1.ServiceAffinity]():              &choice{[]string{"ClientIP", "None"}},
			typeOf[corev1.IPFamily]():                     &choice{[]string{"IPv4", "IPv6"}},
			typeOf[corev1.IPFamilyPolicy]():               &choice{[]string{"SingleStack", "PreferDualStack", "RequireDualStack"}},
			typeOf[corev1.ServiceInternalTrafficPolicy](): &choice{[]string{"Cluster", "Local"}},
			typeOf[corev1.ServiceExternalTrafficPolicy](): &choice{[]string{"Cluster", "Local"}},
			typeOf[corev1.RestartPolicy]():                &choice{[]string{"Always", "OnFailure", "Never"}},
			typeOf[corev1.PullPolicy]():                   &choice{[]string{"Always", "IfNotPresent", "Never"}},
			typeOf[corev1.URIScheme]():                    &choice{[]string{"HTTP", "HTTPS"}},
			typeOf[discoveryv1.AddressType]():             &choice{[]string{"IPv4", "IPv6", "FQDN"}},
		},
		messages: map[protoreflect.FullName]shape{
			"google.protobuf.Duration":    duration(),
			"google.protobuf.Timestamp":   timestamp(),
			"google.protobuf.Struct":      anything{mapOnly: true},
			"google.protobuf.Any":         anything{mapOnly: true},
			"google.protobuf.Value":       anything{},
			"google.protobuf.ListValue":   &list{anything{}},
			"google.protobuf.BoolValue":   boolean(),
			"google.protobuf.StringValue": text{},
			"google.protobuf.BytesValue":  base64Bytes(),
			"google.protobuf.DoubleValue": number(),
			"google.protobuf.FloatValue":  number(),
			"google.protobuf.Int32Value":  signed(32),
			"google.protobuf.Int64Value":  quoted(signed(64)),
			"google.protobuf.UInt32Value": unsigned(32),
			"google.protobuf.UInt64Value": quoted(unsigned(64)),
		},
	}
}

// ofType is the shape of a Go type with json tags.
func (b *shapeBuilder) ofType(t reflect.Type) shape {
	if s, ok := b.types[t]; ok {
		return s
	}
	if m, ok := reflect.New(t).Interface().(proto.Message); ok {
		return b.ofMessage(m.ProtoReflect().Descriptor())
	}
	if reflect.PointerTo(t).Implements(typeOf[json.Unmarshaler]()) {
		return anything{} // it has a form of its own, which its decoder checks
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.ofType(t.Elem())
	case reflect.Struct:
		return b.ofStruct(t)
	case reflect.Slice:
		return &list{b.ofType(t.Elem())}
	case reflect.Map:
		return &dictionary{b.ofType(t.Elem())}
	case reflect.String:
		return text{}
	case reflect.Bool:
		return boolean()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed(t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned(t.Bits())
	case reflect.Float32, reflect.Float64:
		return number()
	}
	return anything{}
}

func (b *shapeBuilder) ofStruct(t reflect.Type) shape {
	o := &object{fields: map[string]field{}}
	b.types[t] = o
	b.addFields(o, t)
	slices.Sort(o.names)
	return o
}

func (b *shapeBuilder) addFields(o *object, t reflect.Type) {
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
			o.add(name, field{shape: b.ofType(f.Type)})
		}
	}
}

// ofMessage is the shape of a protobuf message in its JSON form.
func (b *shapeBuilder) ofMessage(d protoreflect.MessageDescriptor) shape {
	if s, ok := b.messages[d.FullName()]; ok {
		return s
	}
	o := &object{fields: map[string]field{}}
	b.messages[d.FullName()] = o
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := field{shape: b.ofField(fd)}
		if group := fd.ContainingOneof(); group != nil && !group.IsSynthetic() {
			f.oneof = string(group.Name())
		}
		o.add(fd.JSONName(), f)
	}
	slices.Sort(o.names)
	return o
}

func (b *shapeBuilder) ofField(fd protoreflect.FieldDescriptor) shape {
	switch {
	case fd.IsMap():
		return &dictionary{b.ofValue(fd.MapValue())}
	case fd.IsList():
		return &list{b.ofValue(fd)}
	}
	return b.ofValue(fd)
}

// ofValue is the shape of one value of a field.
func (b *shapeBuilder) ofValue(fd protoreflect.FieldDescriptor) shape {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return b.ofMessage(fd.Message())
	case protoreflect.EnumKind:
		c := &choice{}
		for i := range fd.Enum().Values().Len() {
			c.values = append(c.values, string(fd.Enum().Values().Get(i).Name()))
		}
		return c
	case protoreflect.BoolKind:
		return boolean()
	case protoreflect.StringKind:
		return text{}
	case protoreflect.BytesKind:
		return base64Bytes()
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return number()
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return signed(32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return unsigned(32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return quoted(unsigned(64))
	default:
		return quoted(signed(64))
	}
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
