package wire

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// Message is an encoded protobuf message.
type Message struct{ Data mem.BufferSlice }

// Bytes returns a message of these bytes, which must not change any more.
func Bytes(b []byte) *Message { return &Message{Data: mem.BufferSlice{mem.SliceBuffer(b)}} }

// Free gives the buffers back. The message must not be used any more.
func (m *Message) Free() {
	m.Data.Free()
	m.Data = nil
}

// Copy returns the same message, which is freed apart.
func (m *Message) Copy() *Message {
	m.Data.Ref()
	return &Message{Data: m.Data}
}

// Reader returns a reader of the message.
func (m *Message) Reader() Reader { return NewReader(m.Data) }

// Codec passes the bytes of Messages on. It takes no other type.
type Codec struct{}

// Name implements encoding.CodecV2. It is the standard codec's, as it is on the wire.
func (Codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2. grpc-go frees what it returns, so the message keeps a
// reference of its own.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Message)
	if !ok {
		return nil, fmt.Errorf("the codec of the agent takes a *wire.Message, not %T", v)
	}
	m.Data.Ref()
	return m.Data, nil
}

// Unmarshal implements encoding.CodecV2. Whoever receives the message frees it.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return fmt.Errorf("the codec of the agent takes a *wire.Message, not %T", v)
	}
	data.Ref()
	m.Data = data
	return nil
}
