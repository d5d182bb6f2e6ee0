package sidecar

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// messageLimit bounds a response. Envoy has no limit, and accepts at least 70 MB.
const messageLimit = 1 << 30

// prefixSize is the size of gRPC's length prefix: a compression flag of one byte and a length of
// four.
const prefixSize = 5

// message splits a stream of gRPC messages into the fields of their protobuf messages. It buffers
// only incomplete fields.
type message struct {
	prefix [prefixSize]byte
	got    int    // of the prefix
	size   int    // of the message
	left   int    // of the message
	field  []byte // an incomplete field
	need   int    // how long it must be for the next attempt to parse it
}

// fieldHandler handles the fields. Its arguments are valid only during the call.
type fieldHandler interface {
	field(number protowire.Number, kind protowire.Type, value []byte) error
	// complete is called when a message of the given size has ended.
	complete(size int) error
}

// idle reports that no part of a message has come.
func (m *message) idle() bool { return m.got == 0 }

// read handles bytes of the stream.
func (m *message) read(p []byte, to fieldHandler) error {
	for {
		if m.got < prefixSize {
			n := copy(m.prefix[m.got:], p)
			m.got, p = m.got+n, p[n:]
			if m.got < prefixSize {
				return nil
			}
			if err := m.begin(); err != nil {
				return err
			}
		}
		n := min(len(p), m.left)
		m.left -= n
		if err := m.fields(p[:n], to); err != nil {
			return err
		}
		p = p[n:]
		if m.left > 0 {
			return nil
		}
		if len(m.field) > 0 {
			return errors.New("a response ends within a field")
		}
		m.got, m.field = 0, nil // free the buffer: there are thousands of sidecars
		if err := to.complete(m.size); err != nil {
			return err
		}
		if len(p) == 0 {
			return nil
		}
	}
}

func (m *message) begin() error {
	if m.prefix[0] != 0 {
		return errors.New("a response is compressed, which was not asked for")
	}
	size := binary.BigEndian.Uint32(m.prefix[1:])
	if size > messageLimit {
		return fmt.Errorf("a response of %d bytes is larger than %d", size, messageLimit)
	}
	m.size, m.left = int(size), int(size)
	return nil
}

// fields handles bytes of the message.
func (m *message) fields(p []byte, to fieldHandler) error {
	for len(m.field) > 0 && len(p) > 0 {
		n := min(max(m.need-len(m.field), 1), len(p))
		m.field, p = append(m.field, p[:n]...), p[n:]
		if len(m.field) < m.need {
			return nil
		}
		size, err := m.fieldSize(m.field)
		if err != nil {
			return err
		}
		if m.need = size; size > 0 && size <= len(m.field) {
			whole := m.field
			m.field, m.need = m.field[:0], 0
			if err := passField(whole, to); err != nil {
				return err
			}
		}
	}
	for len(p) > 0 {
		size, err := m.fieldSize(p)
		if err != nil {
			return err
		}
		if size == 0 || size > len(p) {
			m.field, m.need = append(m.field, p...), size
			return nil
		}
		if err := passField(p[:size], to); err != nil {
			return err
		}
		p = p[size:]
	}
	return nil
}

// fieldSize returns the size of the field at the start of p, or 0 if too few bytes are there.
func (m *message) fieldSize(p []byte) (int, error) {
	_, kind, n := protowire.ConsumeTag(p)
	switch {
	case n < 0 && len(p) < 10:
		return 0, nil // incomplete
	case n < 0:
		return 0, fmt.Errorf("a response has a malformed tag: %w", protowire.ParseError(n))
	}
	switch kind {
	case protowire.BytesType:
		size, l := protowire.ConsumeVarint(p[n:])
		switch {
		case l < 0 && len(p)-n < 10:
			return 0, nil
		case l < 0:
			return 0, fmt.Errorf("a response has a malformed length: %w", protowire.ParseError(l))
		case size > uint64(m.size):
			return 0, fmt.Errorf("a field of %d bytes is larger than its response of %d", size, m.size)
		}
		return n + l + int(size), nil
	case protowire.VarintType:
		_, l := protowire.ConsumeVarint(p[n:])
		switch {
		case l < 0 && len(p)-n < 10:
			return 0, nil
		case l < 0:
			return 0, fmt.Errorf("a response has a malformed number: %w", protowire.ParseError(l))
		}
		return n + l, nil
	case protowire.Fixed32Type:
		return n + 4, nil
	case protowire.Fixed64Type:
		return n + 8, nil
	}
	return 0, errors.New("a response has a group, which no message of xDS has")
}

// passField passes on a whole field. The value of a varint is its bytes.
func passField(p []byte, to fieldHandler) error {
	number, kind, n := protowire.ConsumeTag(p)
	value := p[n:]
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(value)
	}
	return to.field(number, kind, value)
}
