package serve

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// codec lets ready-made frames go out without a copy and decodes requests straight into what a session takes; any
// other message goes the usual way.
type codec struct {
	proto   encoding.CodecV2
	buffers mem.BufferPool // of requests that came in several frames
}

func newCodec() codec {
	// The pool that there is by default has nothing between 32 KiB and 1 MiB, where what a proxy says that comes back mostly is.
	buffers := mem.NewTieredBufferPool(4<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20)
	return codec{proto: encoding.GetCodecV2("proto"), buffers: buffers}
}

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
	in, ok := v.(*request)
	if !ok {
		return c.proto.Unmarshal(data, v)
	}
	in.buffer = data.MaterializeToBuffer(c.buffers)
	err := in.decode(in.buffer.ReadOnlyData())
	if err != nil || in.Lists == nil {
		in.release()
	}
	if err != nil {
		return fmt.Errorf("malformed discovery request: %w", err)
	}
	return nil
}
