package sidecar

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// messageLimit bounds a response; Envoy has no limit, and takes at least 70 MB.
const messageLimit = 1 << 30

// prefixSize is that of gRPC's length prefix: a byte that tells whether the message is compressed, and four of its length.
const prefixSize = 5

// message cuts a stream of gRPC messages into the fields of their protobuf messages, and keeps only fields that are not complete.
type message struct {
	prefix [prefixSize]byte
	got    int    // of the prefix
	size   int    // of the message
	left   int    // of the message
	field  []byte // an incomplete field
	need   int    // how large it must become before it is looked at again
}

// fieldTaker is what the fields are for. What it is given is valid only during the call.
type fieldTaker interface {
	field(number protowire.Number, kind protowire.Type, value []byte) error
	// complete tells that a message of the given size ended.
	complete(size int) error
}

// idle tells that nothing of a message has come.
func (m *message) idle() bool { return m.got == 0 }

// read takes bytes of the stream.
func (m *message) read(p []byte, to fieldTaker) error {
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
		m.got, m.field = 0, nil // what cut fields took is not kept for each of thousands of sidecars
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

// fields reads bytes of the message.
func (m *message) fields(p []byte, to fieldTaker) error {
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
			if err := takeField(whole, to); err != nil {
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
		if err := takeField(p[:size], to); err != nil {
			return err
		}
		p = p[size:]
	}
	return nil
}

// fieldSize is how many bytes the field has with which p begins, 0 if too few are there to know.
func (m *message) fieldSize(p []byte) (int, error) {
	_, kind, n := protowire.ConsumeTag(p)
	switch {
	case n < 0 && len(p) < 10:
		return 0, nil // cut
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

// takeField passes a whole field on; the value of a varint is its bytes.
func takeField(p []byte, to fieldTaker) error {
	number, kind, n := protowire.ConsumeTag(p)
	value := p[n:]
	if kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(value)
	}
	return to.field(number, kind, value)
}
