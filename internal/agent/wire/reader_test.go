package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzReader reads any bytes, in one buffer and in many. What it finds is what protowire finds.
func FuzzReader(f *testing.F) {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("abc"))
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), 300)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 3, protowire.Fixed32Type), 1)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 1000, protowire.Fixed64Type), 1)
	f.Add(b, 2)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		var split mem.BufferSlice
		size = max(size, 1)
		for at := 0; at < len(b); at += min(size, len(b)-at) {
			split = append(split, mem.SliceBuffer(b[at:min(at+size, len(b))]))
		}
		r := NewReader(split)
		rest := b
		for field := (Field{}); r.Next(&field); {
			n, kind, tag := protowire.ConsumeTag(rest)
			require.Positive(t, tag)
			require.Equal(t, n, field.Number)
			value := protowire.ConsumeFieldValue(n, kind, rest[tag:])
			require.Positive(t, value)
			if kind == protowire.BytesType {
				content, _ := protowire.ConsumeBytes(rest[tag:])
				inner := r
				require.Equal(t, len(content), field.Size)
				require.Equal(t, string(content), r.String(field))
				message := inner.Message(field.Size)
				require.Equal(t, len(content), message.Left())
				require.Equal(t, r.Left(), inner.Left())
			} else {
				require.Negative(t, field.Size)
			}
			rest = rest[tag+value:]
			require.Equal(t, len(rest), r.Left())
		}
		if r.Err() == nil {
			require.Empty(t, rest)
			return
		}
		n, kind, tag := protowire.ConsumeTag(rest)
		isGroup := kind == protowire.StartGroupType || kind == protowire.EndGroupType
		isRead := tag > 0 && !isGroup && protowire.ConsumeFieldValue(n, kind, rest[tag:]) > 0
		require.False(t, isRead, "it can be read")
	})
}
