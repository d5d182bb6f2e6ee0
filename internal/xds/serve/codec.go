package serve

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// codec sends ready-made frames without a copy, and decodes requests into what a session takes. It
// passes all other messages on to the standard codec.
type codec struct{ proto encoding.CodecV2 }

// minBytesPerBuffer is the mean size below which buffers are joined: what holds them would be
// larger than their content.
const minBytesPerBuffer = 256

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Name implements encoding.CodecV2. It is the standard codec's, as it is on the wire.
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
	if m, ok := v.(*callMessage); ok {
		if m.size = data.Len(); m.size > maxCallMessage {
			return nil // call.RecvMsg refuses it
		}
		v = m.into
	}
	in, ok := v.(*incoming)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	if len(data) > 1 && data.Len() < len(data)*minBytesPerBuffer {
		whole := data.MaterializeToBuffer(mem.NopBufferPool{})
		defer whole.Free()
		data = mem.BufferSlice{whole}
	}
	if err := in.decode(data); err != nil {
		return fmt.Errorf("malformed discovery request: %w", err)
	}
	return nil
}
