package serve

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// codec lets ready-made frames go out without a copy and decodes requests straight into what a session takes; any
// other message goes the usual way.
type codec struct{ proto encoding.CodecV2 }

// fewBytes in each buffer are so few that what holds the buffers would be more than what is in them.
const fewBytes = 256

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Name is that of the usual codec, as it is on the wire.
func (codec) Name() string { return "proto" }

// Marshal is called for each message that is sent.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if out, ok := v.(*outgoing); ok {
		return out.buffers(), nil
	}
	return c.proto.Marshal(v)
}

// Unmarshal is called for each message that was received.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	if len(data) > 1 && data.Len() < len(data)*fewBytes {
		whole := data.MaterializeToBuffer(mem.NopBufferPool{})
		defer whole.Free()
		data = mem.BufferSlice{whole}
	}
	if err := in.decode(data); err != nil {
		return fmt.Errorf("malformed discovery request: %w", err)
	}
	return nil
}
