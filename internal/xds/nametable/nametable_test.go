package nametable_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/lateen-mesh/lateen/internal/xds/nametable"
)

var reviews = nametable.Name{
	Host: "reviews.default.svc.cluster.local", IPs: []string{"10.0.0.1", "fd00::1"},
	Registry: nametable.Kubernetes, ShortName: "reviews", Namespace: "default",
}

var external = nametable.Name{Host: "*.example.com", IPs: []string{"240.240.0.7"}, Registry: nametable.External}

func TestNamesComeBackAsTheyWere(t *testing.T) {
	names, err := nametable.Parse(nametable.Append(nametable.Append(nil, &reviews), &external))
	require.NoError(t, err)
	require.Equal(t, []nametable.Name{reviews, external}, names)

	none, err := nametable.Parse(nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestBrokenTablesAreErrors(t *testing.T) {
	whole := nametable.Append(nil, &reviews)
	for _, broken := range [][]byte{whole[:len(whole)-1], {0x0a, 0x03, 0x0a, 0x05, 'a'}, {0xff}} {
		_, err := nametable.Parse(broken)
		require.ErrorContains(t, err, "NameTable")
	}
}

// The message is Istio's: what it declares reads the names out of it.
func TestIstiosMessageHasTheNames(t *testing.T) {
	table := dynamicpb.NewMessage(istiosMessage(t))
	require.NoError(t, proto.Unmarshal(nametable.Append(nametable.Append(nil, &reviews), &external), table))
	entries := table.Get(table.Descriptor().Fields().ByName("table")).Map()
	require.Equal(t, 2, entries.Len())
	info := entries.Get(protoreflect.ValueOfString(reviews.Host).MapKey()).Message()
	text := func(field string) string {
		return info.Get(info.Descriptor().Fields().ByName(protoreflect.Name(field))).String()
	}
	require.Equal(t, "Kubernetes", text("registry"))
	require.Equal(t, "reviews", text("shortname"))
	require.Equal(t, "default", text("namespace"))
	ips := info.Get(info.Descriptor().Fields().ByName("ips")).List()
	require.Equal(t, "fd00::1", ips.Get(1).String())
}

// istiosMessage declares the fields of the message that are used.
func istiosMessage(t *testing.T) protoreflect.MessageDescriptor {
	text := descriptorpb.FieldDescriptorProto_TYPE_STRING
	message := descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	one, many := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	type label = descriptorpb.FieldDescriptorProto_Label
	field := func(name string, number int32, label label) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: &label, Type: &text}
	}
	of := func(f *descriptorpb.FieldDescriptorProto, typ string) *descriptorpb.FieldDescriptorProto {
		f.Type, f.TypeName = &message, &typ
		return f
	}
	const path = ".istio.networking.nds.v1.NameTable"
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("nds.proto"), Package: proto.String("istio.networking.nds.v1"),
		Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:  proto.String("NameTable"),
			Field: []*descriptorpb.FieldDescriptorProto{of(field("table", 1, many), path+".TableEntry")},
			NestedType: []*descriptorpb.DescriptorProto{
				{
					Name: proto.String("TableEntry"),
					Field: []*descriptorpb.FieldDescriptorProto{
						field("key", 1, one), of(field("value", 2, one), path+".NameInfo"),
					},
					Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
				},
				{
					Name: proto.String("NameInfo"),
					Field: []*descriptorpb.FieldDescriptorProto{
						field("ips", 1, many), field("registry", 2, one),
						field("shortname", 3, one), field("namespace", 4, one),
					},
				},
			},
		}},
	}, nil)
	require.NoError(t, err)
	return file.Messages().ByName("NameTable")
}

func FuzzParse(f *testing.F) {
	f.Add(nametable.Append(nametable.Append(nil, &reviews), &external))
	f.Add([]byte{0x12, 0x00})
	f.Fuzz(func(t *testing.T, table []byte) {
		names, err := nametable.Parse(table)
		if err != nil {
			return
		}
		var again []byte
		for i := range names {
			again = nametable.Append(again, &names[i])
		}
		same, err := nametable.Parse(again)
		require.NoError(t, err)
		require.Equal(t, names, same)
	})
}
