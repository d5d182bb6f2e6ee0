package envoyfilter

import (
	"fmt"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// structure is a configuration that is written without its type's fields (TypedStruct), with the
// name of the type.
type structure interface {
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

// unwrap turns each structure in a message into a message of the type that it names, as Envoy does:
// so it can be checked, and merged. Structures of types that only another Envoy has stay. It
// reports whether there were any others.
func unwrap(in protoreflect.Message) (changed bool, err error) {
	if packed, is := in.Interface().(*anypb.Any); is {
		return unwrapPacked(packed)
	}
	in.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		eachMessage(field, v, func(m protoreflect.Message) {
			if err == nil {
				var one bool
				one, err = unwrap(m)
				changed = changed || one
			}
		})
		return err == nil
	})
	return changed, err
}

func unwrapPacked(packed *anypb.Any) (changed bool, err error) {
	if packed.GetTypeUrl() == "" {
		return false, nil
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return false, err
	}
	switch of := m.(type) {
	case *udpav1.TypedStruct:
		m, err = messageIn(of)
	case *xdsv3.TypedStruct:
		m, err = messageIn(of)
	default:
		if changed, err = unwrap(m.ProtoReflect()); !changed {
			return false, err
		}
	}
	if err != nil || m == nil {
		return false, err
	}
	return true, anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true})
}

// messageIn returns the message that a structure stands for; nil for one of a type that is not
// known.
func messageIn(s structure) (proto.Message, error) {
	of, err := protoregistry.GlobalTypes.FindMessageByURL(s.GetTypeUrl())
	if err != nil {
		return nil, nil //nolint:nilerr // Envoy may know the type
	}
	text, err := protojson.Marshal(s.GetValue())
	if err != nil {
		return nil, err
	}
	m := of.New().Interface()
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", of.Descriptor().FullName(), err)
	}
	return m, nil
}
