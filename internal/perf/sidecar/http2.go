package sidecar

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// Frame types and flags of HTTP/2 (RFC 9113, 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePush         = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindow       = 0x8
	frameContinuation = 0x9

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings (RFC 9113, 6.5.2).
const (
	settingTableSize = 0x1
	settingPush      = 0x2
	settingWindow    = 0x4
	settingFrameSize = 0x5
)

const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeader   = 9
	firstStream   = 1        // the only stream of a connection
	frameLimit    = 16384    // for received frames: the default of SETTINGS_MAX_FRAME_SIZE
	blockLimit    = 64 << 10 // of a header block
	defaultWindow = 65535    // before any SETTINGS or WINDOW_UPDATE
	maxWindow     = 1<<31 - 1
	maxPeerFrame  = 1<<24 - 1
)

// receiver handles the frames of a connection.
type receiver interface {
	// data handles bytes of the stream, which are valid only during the call.
	data(p []byte) error
	// fields handles a complete header block.
	fields(block []byte) error
	// ended is called when the peer has closed the stream.
	ended() error
	// send queues a frame to be written.
	send(frame ...byte)
}

// The errors of connections that the peer closes in order.
var (
	errGoAway = errors.New("the server closes the connection (GOAWAY)")
	errClosed = errors.New("the server closed the connection")
)

// resetError is a RST_STREAM.
type resetError uint32

func (e resetError) Error() string {
	return fmt.Sprintf("the server reset the stream (code %d)", uint32(e))
}

// framing is the client side of an HTTP/2 connection with one stream. Input comes in pieces of any
// size. It buffers incomplete frames, but passes DATA through.
type framing struct {
	partial []byte // an incomplete frame: its header and the payload so far
	block   []byte // an incomplete header block
	// The DATA frame that is being read: bytes of data and of padding to come, and whether it ends
	// the stream.
	payload, padding uint32
	last             bool

	granted                  uint32 // the window of the stream
	taken, takenOfConnection uint32 // bytes read since the last WINDOW_UPDATE

	// The send windows of the stream and of the connection, the peer's initial window, and its
	// largest frame.
	window, windowOfConnection int64
	initial                    int64
	maxFrame                   uint32
}

func newFraming(window uint32) framing {
	return framing{
		granted:            window,
		window:             defaultWindow,
		windowOfConnection: defaultWindow,
		initial:            defaultWindow,
		maxFrame:           frameLimit,
	}
}

// connectionWindow returns the window of a connection for a window of its stream, in Envoy's
// proportion.
func connectionWindow(stream uint32) uint32 {
	return uint32(min(uint64(stream)+uint64(stream)/2, maxWindow))
}

// preamble returns the first bytes of a connection: the preface, the settings, and the request's
// headers. The settings forbid dynamic header compression, so that decoding needs no state.
func preamble(window uint32, fields []hpack.HeaderField) []byte {
	b := []byte(preface)
	b = appendFrame(b, 18, frameSettings, 0, 0)
	b = appendSetting(b, settingTableSize, 0)
	b = appendSetting(b, settingPush, 0)
	b = appendSetting(b, settingWindow, window)
	if more := connectionWindow(window); more > defaultWindow {
		b = appendWindow(b, 0, more-defaultWindow)
	}
	var block []byte
	w := writerTo(&block)
	e := hpack.NewEncoder(w)
	e.SetMaxDynamicTableSizeLimit(0)
	for _, f := range fields {
		_ = e.WriteField(f) // the writer does not fail
	}
	for first := true; first || len(block) > 0; first = false {
		part := block[:min(len(block), frameLimit)]
		block = block[len(part):]
		kind, flags := byte(frameContinuation), byte(0)
		if first {
			kind = frameHeaders
		}
		if len(block) == 0 {
			flags = flagEndHeaders
		}
		b = append(appendFrame(b, len(part), kind, flags, firstStream), part...)
	}
	return b
}

type appender struct{ to *[]byte }

func writerTo(b *[]byte) appender { return appender{b} }

func (a appender) Write(p []byte) (int, error) {
	*a.to = append(*a.to, p...)
	return len(p), nil
}

func appendFrame(b []byte, size int, kind, flags byte, stream uint32) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), value)
}

func appendWindow(b []byte, stream, more uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, frameWindow, 0, stream), more)
}

// read handles bytes that came over the connection.
func (c *framing) read(p []byte, to receiver) error {
	for len(p) > 0 {
		var err error
		switch {
		case c.payload > 0:
			n := min(len(p), int(c.payload))
			c.payload -= uint32(n)
			err = c.passData(p[:n], to)
			p = p[n:]
		case c.padding > 0:
			n := min(len(p), int(c.padding))
			c.padding -= uint32(n)
			c.consumed(uint32(n), to)
			p = p[n:]
			err = c.dataEnds(to)
		default:
			p, err = c.frame(p, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// frame handles one frame, or the header of a DATA frame. It buffers an incomplete one.
func (c *framing) frame(p []byte, to receiver) ([]byte, error) {
	if len(c.partial) > 0 {
		n := min(frameHeader-len(c.partial), len(p)) // not positive when the header is there
		if n > 0 {
			c.partial, p = append(c.partial, p[:n]...), p[n:]
		}
		need, err := frameNeeds(c.partial)
		if err != nil {
			return nil, err
		}
		n = min(need-len(c.partial), len(p))
		c.partial, p = append(c.partial, p[:n]...), p[n:]
		if len(c.partial) < frameHeader || len(c.partial) < need {
			return p, nil
		}
		whole := c.partial
		c.partial = nil
		return p, c.take(whole, to)
	}
	need, err := frameNeeds(p)
	if err != nil {
		return nil, err
	}
	if len(p) < need {
		c.partial = append(c.partial, p...)
		return nil, nil
	}
	return p[need:], c.take(p[:need], to)
}

// frameNeeds returns how many bytes of a frame must be there before it is handled: all, but of DATA
// only the header and the length of the padding.
func frameNeeds(p []byte) (int, error) {
	if len(p) < frameHeader {
		return frameHeader, nil
	}
	size := int(p[0])<<16 | int(p[1])<<8 | int(p[2])
	if size > frameLimit {
		return 0, fmt.Errorf("a frame of %d bytes is larger than the %d that were agreed on", size, frameLimit)
	}
	if p[3] != frameData {
		return frameHeader + size, nil
	}
	if p[4]&flagPadded == 0 {
		return frameHeader, nil
	}
	if size == 0 {
		return 0, errors.New("a padded DATA frame has no length of its padding")
	}
	return frameHeader + 1, nil
}

// take handles a frame that is complete as far as frameNeeds says.
func (c *framing) take(f []byte, to receiver) error {
	size := uint32(f[0])<<16 | uint32(f[1])<<8 | uint32(f[2])
	kind, flags, stream, p := f[3], f[4], binary.BigEndian.Uint32(f[5:])&maxWindow, f[frameHeader:]
	if len(c.block) > 0 && kind != frameContinuation {
		return errors.New("a header block is interrupted by another frame")
	}
	switch kind {
	case frameData:
		return c.takeData(size, flags, stream, p, to)
	case frameHeaders:
		return c.takeHeaders(flags, stream, p, to)
	case frameContinuation:
		if len(c.block) == 0 {
			return errors.New("a CONTINUATION frame continues nothing")
		}
		return c.takeBlock(p, flags, to)
	case frameSettings:
		return c.takeSettings(flags, p, to)
	case frameWindow:
		return c.takeWindow(stream, p)
	case framePing:
		if len(p) != 8 {
			return fmt.Errorf("a PING frame has %d bytes, not 8", len(p))
		}
		if flags&flagAck == 0 {
			to.send(append(appendFrame(nil, 8, framePing, flagAck, 0), p...)...)
		}
	case frameReset:
		if len(p) != 4 {
			return fmt.Errorf("a RST_STREAM frame has %d bytes, not 4", len(p))
		}
		if stream == firstStream {
			return resetError(binary.BigEndian.Uint32(p))
		}
	case frameGoAway:
		if len(p) < 8 {
			return fmt.Errorf("a GOAWAY frame has %d bytes, fewer than 8", len(p))
		}
		// A stream that the server has accepted goes on until the server ends it.
		if binary.BigEndian.Uint32(p)&maxWindow < firstStream {
			return errGoAway
		}
	case framePush:
		return errors.New("the server pushes, which it was told not to")
	}
	return nil // frames of unknown types are ignored (RFC 9113, 4.1)
}

func (c *framing) takeData(size uint32, flags byte, stream uint32, p []byte, to receiver) error {
	if stream != firstStream {
		return fmt.Errorf("a DATA frame is of stream %d, which is not open", stream)
	}
	if size+c.taken > c.granted {
		return errors.New("the server sent more than the window")
	}
	c.last = flags&flagEndStream != 0
	c.payload, c.padding = size, 0
	if flags&flagPadded != 0 {
		c.padding = uint32(p[0])
		if c.padding+1 > size {
			return errors.New("a DATA frame is shorter than its padding")
		}
		c.payload = size - 1 - c.padding
		c.consumed(1, to)
	}
	return c.dataEnds(to)
}

// passData passes data on to the receiver.
func (c *framing) passData(p []byte, to receiver) error {
	if err := to.data(p); err != nil {
		return err
	}
	c.consumed(uint32(len(p)), to)
	return c.dataEnds(to)
}

func (c *framing) dataEnds(to receiver) error {
	if c.payload == 0 && c.padding == 0 && c.last {
		c.last = false
		return to.ended()
	}
	return nil
}

// consumed sends WINDOW_UPDATE once half of a window is consumed, as nghttp2 does.
func (c *framing) consumed(n uint32, to receiver) {
	c.taken += n
	c.takenOfConnection += n
	var b []byte
	if c.taken >= (c.granted+1)/2 {
		b = appendWindow(b, firstStream, c.taken)
		c.taken = 0
	}
	if c.takenOfConnection >= (max(connectionWindow(c.granted), defaultWindow)+1)/2 {
		b = appendWindow(b, 0, c.takenOfConnection)
		c.takenOfConnection = 0
	}
	if len(b) > 0 {
		to.send(b...)
	}
}

func (c *framing) takeHeaders(flags byte, stream uint32, p []byte, to receiver) error {
	if stream != firstStream {
		return fmt.Errorf("a HEADERS frame is of stream %d, which is not open", stream)
	}
	pad := 0
	if flags&flagPadded != 0 {
		if len(p) == 0 {
			return errors.New("a padded HEADERS frame has no length of its padding")
		}
		pad, p = int(p[0]), p[1:]
	}
	if flags&flagPriority != 0 {
		if len(p) < 5 {
			return errors.New("a HEADERS frame is shorter than its priority")
		}
		p = p[5:]
	}
	if pad > len(p) {
		return errors.New("a HEADERS frame is shorter than its padding")
	}
	c.last = flags&flagEndStream != 0
	return c.takeBlock(p[:len(p)-pad], flags, to)
}

func (c *framing) takeBlock(p []byte, flags byte, to receiver) error {
	if len(c.block)+len(p) > blockLimit {
		return fmt.Errorf("a header block is larger than %d bytes", blockLimit)
	}
	if flags&flagEndHeaders == 0 {
		if c.block = append(c.block, p...); len(c.block) == 0 {
			return errors.New("a header block begins with an empty frame")
		}
		return nil
	}
	if len(c.block) > 0 {
		p = append(c.block, p...)
		c.block = nil
	}
	if err := to.fields(p); err != nil {
		return err
	}
	return c.dataEnds(to)
}

func (c *framing) takeSettings(flags byte, p []byte, to receiver) error {
	if flags&flagAck != 0 {
		return nil
	}
	if len(p)%6 != 0 {
		return fmt.Errorf("a SETTINGS frame has %d bytes, not a multiple of 6", len(p))
	}
	for ; len(p) > 0; p = p[6:] {
		value := binary.BigEndian.Uint32(p[2:])
		switch binary.BigEndian.Uint16(p) {
		case settingWindow:
			if value > maxWindow {
				return fmt.Errorf("SETTINGS_INITIAL_WINDOW_SIZE is %d, more than %d", value, maxWindow)
			}
			c.window += int64(value) - c.initial
			c.initial = int64(value)
		case settingFrameSize:
			if value < frameLimit || value > maxPeerFrame {
				return fmt.Errorf(
					"SETTINGS_MAX_FRAME_SIZE is %d, not between %d and %d", value, frameLimit, maxPeerFrame,
				)
			}
			c.maxFrame = value
		}
	}
	to.send(appendFrame(nil, 0, frameSettings, flagAck, 0)...)
	return nil
}

func (c *framing) takeWindow(stream uint32, p []byte) error {
	if len(p) != 4 {
		return fmt.Errorf("a WINDOW_UPDATE frame has %d bytes, not 4", len(p))
	}
	more := int64(binary.BigEndian.Uint32(p) & maxWindow)
	of := &c.windowOfConnection
	switch stream {
	case 0:
	case firstStream:
		of = &c.window
	default:
		return nil
	}
	if *of += more; *of > maxWindow || more == 0 {
		return fmt.Errorf("a WINDOW_UPDATE of %d leads to a window of %d", more, *of)
	}
	return nil
}

// sendable returns how many bytes of the stream may be sent in one frame now.
func (c *framing) sendable() int {
	return int(max(0, min(c.window, c.windowOfConnection, int64(c.maxFrame))))
}

// sent subtracts sent bytes from the send windows.
func (c *framing) sent(n int) {
	c.window -= int64(n)
	c.windowOfConnection -= int64(n)
}
