package serve

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/test/bufconn"
)

// rawClient is an HTTP/2 client that ignores the server's settings.
type rawClient struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
}

// dial opens a connection on a listener of its own, and sends nothing.
func (f *fixture) dial(t *testing.T) net.Conn {
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.Error(t, <-served, "its listener is gone")
	})
	conn, err := l.DialContext(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// raw opens a connection and answers the server's settings, which it returns.
func (f *fixture) raw(t *testing.T) (c rawClient, settings map[http2.SettingID]uint32) {
	conn := f.dial(t)
	c = rawClient{t, conn, http2.NewFramer(conn, conn)}
	_, err := conn.Write([]byte(http2.ClientPreface))
	require.NoError(t, err)
	require.NoError(t, c.framer.WriteSettings())
	settings = map[http2.SettingID]uint32{}
	c.until(func(frame http2.Frame) bool {
		s, ok := frame.(*http2.SettingsFrame)
		if !ok || s.IsAck() {
			return false
		}
		require.NoError(t, s.ForeachSetting(func(s http2.Setting) error {
			settings[s.ID] = s.Val
			return nil
		}))
		return true
	})
	require.NoError(t, c.framer.WriteSettingsAck())
	return c, settings
}

// until reads frames, and answers pings, until one is found.
func (c rawClient) until(found func(http2.Frame) bool) {
	for {
		frame, err := c.framer.ReadFrame()
		require.NoError(c.t, err)
		if found(frame) {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
			require.NoError(c.t, c.framer.WritePing(true, ping.Data))
		}
	}
}

// call opens a stream with one header more, of the given value, and sends no request on it.
func (c rawClient) call(stream uint32, value string) {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"},
		{Name: ":authority", Value: "lateen"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "x-more", Value: value, Sensitive: true}, // it enters no table
	} {
		require.NoError(c.t, e.WriteField(f))
	}
	parts := slices.Collect(slices.Chunk(block.Bytes(), 16<<10))
	for i, part := range parts {
		last := i == len(parts)-1
		if i == 0 {
			require.NoError(c.t, c.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: stream, BlockFragment: part, EndHeaders: last,
			}))
			continue
		}
		require.NoError(c.t, c.framer.WriteContinuation(stream, last, part))
	}
}

// refused waits until the server resets a stream, and tells why.
func (c rawClient) refused(stream uint32) (code http2.ErrCode) {
	c.until(func(frame http2.Frame) bool {
		reset, ok := frame.(*http2.RSTStreamFrame)
		if ok && reset.StreamID == stream {
			code = reset.ErrCode
			return true
		}
		return false
	})
	return code
}

func TestAConnectionHasBoundedStreams(t *testing.T) {
	f := newFixture(t)
	c, settings := f.raw(t)
	require.EqualValues(t, maxStreams, settings[http2.SettingMaxConcurrentStreams])
	for i := range uint32(maxStreams + 1) {
		c.call(2*i+1, "")
	}
	require.Equal(t, http2.ErrCodeRefusedStream, c.refused(2*maxStreams+1), "one more than the server allows")
	f.delta(nodeOf(reviewsID)).recv() // others are served
}

func TestHeadersOfACallAreBounded(t *testing.T) {
	f := newFixture(t)
	c, settings := f.raw(t)
	require.EqualValues(t, maxHeaders, settings[http2.SettingMaxHeaderListSize])
	c.call(1, strings.Repeat("v", maxHeaders))
	require.NotEqual(t, http2.ErrCodeNo, c.refused(1))
	require.NoError(t, c.framer.WritePing(false, [8]byte{1}))
	c.until(func(frame http2.Frame) bool {
		ping, ok := frame.(*http2.PingFrame)
		return ok && ping.IsAck()
	}) // the connection goes on
}

// Who connects and says nothing, or opens no stream, holds its place for a bounded time.
func TestConnectionsWithoutAStreamEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		silent, begin := f.dial(t), time.Now()
		for err := error(nil); err == nil; { // the server's settings, then the end
			_, err = silent.Read(make([]byte, 1<<10))
		}
		require.Equal(t, handshakeTimeout, time.Since(begin))

		begin = time.Now()
		idle, _ := f.raw(t)
		idle.until(func(frame http2.Frame) bool {
			_, ok := frame.(*http2.GoAwayFrame)
			return ok
		})
		require.Equal(t, idleConnection, time.Since(begin))
	})
}
