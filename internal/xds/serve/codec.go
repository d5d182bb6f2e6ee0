package serve

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// codec lets ready-made frames go out without a copy and decodes requests straight into what a session takes; any
// other message goes the usual way.
type codec struct{ proto encoding.CodecV2 }

func newCodec() codec { return codec{proto: encoding.GetCodecV2("proto")} }

// Name is that of the usual codec, as it is on the wire.
func (codec) Name() string { return "proto" }

// Marshal is called for each message that is sent.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(fanout.Frame)
	if !ok {
		return c.proto.Marshal(v)
	}
	parts := make(mem.BufferSlice, len(f.Parts))
	for i, p := range f.Parts {
		parts[i] = mem.SliceBuffer(p)
	}
	return parts, nil
}

// Unmarshal is called for each message that was received.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*request)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if err := in.decode(buf.ReadOnlyData()); err != nil {
		return fmt.Errorf("malformed discovery request: %w", err)
	}
	return nil
}
