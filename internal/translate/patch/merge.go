package patch

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// merger merges messages. Lists follow those that were there, or take their place.
type merger struct{ replacesLists bool }

// message merges a message into another one of its type. It takes all that from has set.
// Entries of maps replace those of their key, as proto.Merge does.
func (m merger) message(to, from protoreflect.Message) {
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			m.list(to.Mutable(fd).List(), v.List())
		case fd.IsMap():
			entries := to.Mutable(fd).Map()
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				entries.Set(key, value)
				return true
			})
		case fd.Message() != nil && !isValue(fd.Message()):
			m.message(to.Mutable(fd).Message(), v.Message())
		default:
			to.Set(fd, v)
		}
		return true
	})
	if unknown := from.GetUnknown(); len(unknown) > 0 {
		to.SetUnknown(slices.Concat(to.GetUnknown(), unknown))
	}
}

func (m merger) list(to, from protoreflect.List) {
	if m.replacesLists {
		to.Truncate(0)
	}
	for i := range from.Len() {
		to.Append(from.Get(i))
	}
}

// isValue reports whether a message is one value, so that one takes the place of another:
// durations, wrapped numbers, and packed messages.
func isValue(of protoreflect.MessageDescriptor) bool {
	return of.ParentFile().Package() == "google.protobuf" && of.Name() != "Struct"
}

// packed merges packed messages of one type.
func (m merger) packed(to, from *anypb.Any) (*anypb.Any, error) {
	if to.GetTypeUrl() != from.GetTypeUrl() {
		return nil, fmt.Errorf("is of type %s, but %s is merged", to.MessageName(), from.MessageName())
	}
	base, err := to.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	change, err := from.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	m.message(base.ProtoReflect(), change.ProtoReflect())
	if checked, has := base.(message); has {
		if err := checked.Validate(); err != nil {
			return nil, err
		}
	}
	return pb.Any(base), nil
}
