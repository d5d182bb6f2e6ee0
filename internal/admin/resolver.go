package admin

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// resolver finds the message types with which Any is printed. A type that is not linked in, such as
// one from a user's patch, is replaced by a message without known fields. That resource then shows
// less, and the others are shown.
type resolver struct{}

func (resolver) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if errors.Is(err, protoregistry.NotFound) {
		return opaque(name)
	}
	return mt, err
}

func (r resolver) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return r.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

func (resolver) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return protoregistry.GlobalTypes.FindExtensionByName(name)
}

func (resolver) FindExtensionByNumber(
	m protoreflect.FullName, n protoreflect.FieldNumber,
) (protoreflect.ExtensionType, error) {
	return protoregistry.GlobalTypes.FindExtensionByNumber(m, n)
}

// opaque returns a message type with the given name and no fields.
func opaque(name protoreflect.FullName) (protoreflect.MessageType, error) {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:        proto.String("opaque.proto"),
		Syntax:      proto.String("proto3"),
		Package:     proto.String(string(name.Parent())),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String(string(name.Name()))}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return dynamicpb.NewMessageType(file.Messages().Get(0)), nil
}
