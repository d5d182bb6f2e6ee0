package sidecar

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// heard is a receiver, and a taker of fields, that writes down what it is told.
type heard struct {
	message message
	log     []string
	sent    bytes.Buffer
}

func (h *heard) data(p []byte) error { return h.message.read(p, h) }
func (h *heard) fields(b []byte) error {
	h.log = append(h.log, fmt.Sprintf("fields %x", b))
	return nil
}
func (h *heard) ended() error {
	h.log = append(h.log, "ended")
	return nil
}
func (h *heard) send(frame ...byte) { h.sent.Write(frame) }
func (h *heard) field(number protowire.Number, kind protowire.Type, value []byte) error {
	h.log = append(h.log, fmt.Sprintf("field %d %d %x", number, kind, value))
	return nil
}
func (h *heard) complete(size int) error {
	h.log = append(h.log, fmt.Sprintf("message of %d", size))
	return nil
}

// hear reads bytes in pieces of a size.
func hear(p []byte, piece int) (*heard, error) {
	h, c := &heard{}, newFraming(1<<16)
	for len(p) > 0 {
		n := min(piece, len(p))
		// What was read is overwritten by what is read next.
		part := bytes.Clone(p[:n])
		err := c.read(part, h)
		clear(part)
		if err != nil {
			return h, err
		}
		p = p[n:]
	}
	return h, nil
}

// conversation is what a server may send, all kinds of frames in it.
func conversation(t testing.TB) []byte {
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	require.NoError(t,
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20},
			http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15}))
	require.NoError(t, f.WriteSettingsAck())
	require.NoError(t, f.WriteWindowUpdate(0, 1000))
	require.NoError(t, f.WriteWindowUpdate(1, 1000))
	require.NoError(t, f.WriteWindowUpdate(3, 1000))
	require.NoError(t,
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: false,
			PadLength: 3}))
	require.NoError(t, f.WriteContinuation(1, true, []byte{0x88, 0x88}))
	first, second := messageOf(fieldsFor(200)), messageOf(fieldsFor(3))
	require.NoError(t, f.WriteData(1, false, first[:3]))
	require.NoError(t, f.WriteDataPadded(1, false, first[3:17], make([]byte, 200)))
	require.NoError(t, f.WriteData(1, false, nil))
	require.NoError(t, f.WritePing(false, [8]byte{1, 2, 3}))
	require.NoError(t, f.WriteData(1, false, append(first[17:], second...)))
	require.NoError(t, f.WriteData(1, false, messageOf(nil)))
	require.NoError(t, f.WriteRawFrame(0x42, 0xff, 7, []byte("unknown")))
	require.NoError(t, f.WriteGoAway(1, http2.ErrCodeNo, []byte("bye")))
	require.NoError(t,
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true,
			EndStream: true}))
	return b.Bytes()
}

func messageOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// fieldsFor is a message with fields of all kinds.
func fieldsFor(n int) (b []byte) {
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 1<<60)
	b = protowire.AppendFixed32(protowire.AppendTag(b, 2000, protowire.Fixed32Type), 1)
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), bytes.Repeat([]byte{7}, n))
	b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), nil)
	return protowire.AppendFixed64(protowire.AppendTag(b, 4, protowire.Fixed64Type), 1)
}

func TestHowBytesAreCutDoesNotMatter(t *testing.T) {
	p := conversation(t)
	whole, err := hear(p, len(p))
	require.NoError(t, err)
	require.Len(t, whole.log, 16)
	require.Equal(t, "ended", whole.log[15])
	for piece := 1; piece < 40; piece++ {
		cut, err := hear(p, piece)
		require.NoError(t, err)
		require.Equal(t, whole.log, cut.log)
		require.Equal(t, whole.sent.Bytes(), cut.sent.Bytes())
	}
	// SETTINGS and PING are answered.
	f := http2.NewFramer(nil, &whole.sent)
	settings, err := f.ReadFrame()
	require.NoError(t, err)
	require.True(t, settings.(*http2.SettingsFrame).IsAck())
	ping, err := f.ReadFrame()
	require.NoError(t, err)
	require.True(t, ping.(*http2.PingFrame).IsAck())
	require.Equal(t, [8]byte{1, 2, 3}, ping.(*http2.PingFrame).Data)
}

func TestSendWindowIsKept(t *testing.T) {
	c, h := newFraming(1<<16), &heard{}
	read := func(write func(*http2.Framer) error) {
		var b bytes.Buffer
		require.NoError(t, write(http2.NewFramer(&b, nil)))
		require.NoError(t, c.read(b.Bytes(), h))
	}
	require.Equal(t, 16384, c.sendable(), "the smallest largest frame")
	c.sent(65000)
	require.Equal(t, 535, c.sendable(), "the window of the stream, and of the connection")
	read(func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 100000) })
	require.Equal(t, 535, c.sendable(), "the window of the connection")
	read(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 100000) })
	require.Equal(t, 16384, c.sendable())
	read(func(f *http2.Framer) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0},
			http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
	})
	require.Equal(t, 100000-65000, c.sendable(), "the window shrinks by what the initial one does")
	c.sent(c.sendable())
	require.Zero(t, c.sendable())
	read(func(f *http2.Framer) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5})
	})
	require.Equal(t, 5, c.sendable())
}

func TestReceiveWindowIsGrantedAgain(t *testing.T) {
	const window = 1 << 15
	c, h := newFraming(window), &heard{}
	granted, read := window, 0
	for range 100 {
		body := messageOf(fieldsFor(5000))
		var b bytes.Buffer
		require.NoError(t, http2.NewFramer(&b, nil).WriteData(1, false, body))
		read += len(body)
		require.NoError(t, c.read(b.Bytes(), h))
		require.LessOrEqual(t, read, granted, "the server could send it")
		f := http2.NewFramer(nil, &h.sent)
		for h.sent.Len() > 0 {
			frame, err := f.ReadFrame()
			require.NoError(t, err)
			if w := frame.(*http2.WindowUpdateFrame); w.StreamID == 1 {
				granted += int(w.Increment)
			}
		}
		require.Greater(t, granted-read, window/2, "at least half of the window is open")
	}
	var b bytes.Buffer
	require.NoError(t, http2.NewFramer(&b, nil).WriteData(1, false, make([]byte, 5000)))
	c = newFraming(4999)
	require.ErrorContains(t, c.read(b.Bytes(), &heard{}), "more than the window")
}

func TestOpeningIsValidHTTP2(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 40000))
	b := preamble(1<<20, requestFields("http", "plane:15010", Delta, long))
	require.Equal(t, http2.ClientPreface, string(b[:len(http2.ClientPreface)]))
	f := http2.NewFramer(nil, bytes.NewReader(b[len(http2.ClientPreface):]))
	f.ReadMetaHeaders = hpack.NewDecoder(0, nil)
	f.MaxHeaderListSize = 1 << 20
	frame, err := f.ReadFrame()
	require.NoError(t, err)
	window, _ := frame.(*http2.SettingsFrame).Value(http2.SettingInitialWindowSize)
	require.Equal(t, uint32(1<<20), window)
	frame, err = f.ReadFrame()
	require.NoError(t, err)
	require.Equal(t, uint32(1<<20+1<<19-defaultWindow), frame.(*http2.WindowUpdateFrame).Increment)
	frame, err = f.ReadFrame()
	require.NoError(t, err)
	meta := frame.(*http2.MetaHeadersFrame)
	require.Equal(t, "POST", meta.PseudoValue("method"))
	require.Equal(t, "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
		meta.PseudoValue("path"))
	require.Equal(t, "plane:15010", meta.PseudoValue("authority"))
	require.Equal(t, "Bearer "+long, meta.RegularFields()[3].Value)
}

func FuzzWire(f *testing.F) {
	f.Add(conversation(f), 3)
	f.Add(conversation(f)[40:], 1)
	f.Fuzz(func(t *testing.T, p []byte, piece int) {
		piece = max(1, piece%100)
		whole, err := hear(p, max(1, len(p)))
		cut, errCut := hear(p, piece)
		if fmt.Sprint(err) != fmt.Sprint(errCut) {
			t.Fatalf("whole: %v, in pieces of %d: %v", err, piece, errCut)
		}
		require.Equal(t, whole.log, cut.log)
	})
}
