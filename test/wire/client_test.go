package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// client is a proxy at its leanest: one connection, one delta stream, HTTP/2 by hand, so that
// thousands of them take little of the machine that they share with the server. It ACKs what it
// gets and keeps nothing.
type client struct {
	conn  net.Conn
	out   []byte // scratch of ack
	acked *atomic.Int64
	// message is the part of a gRPC message that is there so far.
	message []byte
}

const (
	frameHead   = 9
	messageHead = 5
	// ample is a window that no client here fills.
	ample = 1 << 30
)

// connect opens a connection, and the stream on it. Windows are those that the client grants: 0 for
// ample ones.
func connect(address string, secure bool, window uint32) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if secure {
		conn = tls.Client(conn, &tls.Config{
			InsecureSkipVerify: true,
			NextProtos:         []string{"h2"},
		}) //nolint:gosec // the certificate was made for this test
	}
	c := &client{conn: conn, acked: &atomic.Int64{}}
	if err := c.open(window); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// open writes what opens a connection and a stream.
func (c *client) open(window uint32) error {
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&hello, nil)
	if window == 0 {
		window = ample
	}
	err := errors.Join(
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}),
		framer.WriteWindowUpdate(0, ample),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headers()}),
	)
	if err == nil {
		_, err = c.conn.Write(hello.Bytes())
	}
	return err
}

func headers() []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "lateen"},
		{":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // a buffer takes all
	}
	return block.Bytes()
}

// request sends one request.
func (c *client) request(r *discoveryv3.DeltaDiscoveryRequest) error {
	body, err := proto.Marshal(r)
	if err != nil {
		return err
	}
	for rest := appendMessage(nil, body); len(rest) > 0; {
		n := min(len(rest), 16384)
		if _, err := c.conn.Write(append(appendFrame(nil, http2.FrameData, 0, 1, n), rest[:n]...)); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// subscribe asks for all that a sidecar asks for.
func (c *client) subscribe(i int) error {
	for t := range resource.NumTypes {
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.URL()}
		if t == resource.Cluster {
			r.Node = node(i)
		}
		if !t.Wildcard() {
			r.ResourceNamesSubscribe = []string{resourceName}
		}
		if err := c.request(r); err != nil {
			return err
		}
	}
	return nil
}

// run reads until the connection ends and ACKs each response; got, unless it is nil, is called with
// each.
func (c *client) run(got func(message []byte)) error {
	buffer := make([]byte, 1024)
	kept := 0
	for {
		n, err := c.conn.Read(buffer[kept:])
		kept += n
		rest := buffer[:kept]
		for {
			size := frameSize(rest)
			if size > len(buffer) {
				larger := make([]byte, 2*size)
				copy(larger, rest)
				buffer, rest = larger, larger[:len(rest)]
			}
			if size == 0 || size > len(rest) {
				break
			}
			if err := c.frame(rest[:size], got); err != nil {
				return err
			}
			rest = rest[size:]
		}
		kept = copy(buffer, rest)
		if err != nil {
			return err
		}
	}
}

// frameSize is the size of the frame that b begins with, 0 if that is not known yet.
func frameSize(b []byte) int {
	if len(b) < frameHead {
		return 0
	}
	return frameHead + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
}

var errEnded = errors.New("the server ended the stream")

func (c *client) frame(f []byte, got func([]byte)) error {
	kind, flags, payload := http2.FrameType(f[3]), http2.Flags(f[4]), f[frameHead:]
	switch kind {
	case http2.FrameData:
		return c.data(payload, got)
	case http2.FrameSettings:
		if !flags.Has(http2.FlagSettingsAck) {
			_, err := c.conn.Write(appendFrame(nil, http2.FrameSettings, http2.FlagSettingsAck, 0, 0))
			return err
		}
	case http2.FramePing:
		if !flags.Has(http2.FlagPingAck) {
			_, err := c.conn.Write(append(appendFrame(nil, http2.FramePing, http2.FlagPingAck, 0, len(payload)),
				payload...))
			return err
		}
	case http2.FrameHeaders:
		if flags.Has(http2.FlagHeadersEndStream) {
			return fmt.Errorf("%w: %s", errEnded, trailers(payload))
		}
	case http2.FrameRSTStream, http2.FrameGoAway:
		return errEnded
	}
	return nil
}

func trailers(block []byte) string {
	fields, err := hpack.NewDecoder(4096, nil).DecodeFull(block)
	if err != nil {
		return err.Error() // fields of the first headers are not known here
	}
	return fmt.Sprint(fields)
}

// data takes a part of the stream, which may hold a part of a message, or several.
func (c *client) data(part []byte, got func([]byte)) error {
	if len(c.message) > 0 {
		c.message = append(c.message, part...)
		part = c.message
	}
	for len(part) >= messageHead {
		size := messageHead + int(binary.BigEndian.Uint32(part[1:]))
		if len(part) < size {
			break
		}
		if got != nil {
			got(part[messageHead:size])
		}
		if err := c.ack(part[messageHead:size]); err != nil {
			return err
		}
		part = part[size:]
	}
	c.message = append(c.message[:0], part...)
	if len(c.message) == 0 {
		c.message = nil
	}
	return nil
}

// ack answers a DeltaDiscoveryResponse: with its nonce and its type.
func (c *client) ack(message []byte) error {
	const responseType, responseNonce, requestType, requestNonce = 4, 5, 2, 6
	var body [256]byte
	b := body[:0]
	for len(message) > 0 {
		field, _, tag := protowire.ConsumeTag(message)
		value, n := protowire.ConsumeBytes(message[max(tag, 0):])
		if tag < 0 || n < 0 {
			return io.ErrUnexpectedEOF
		}
		switch field {
		case responseType:
			b = protowire.AppendBytes(protowire.AppendTag(b, requestType, protowire.BytesType), value)
		case responseNonce:
			b = protowire.AppendBytes(protowire.AppendTag(b, requestNonce, protowire.BytesType), value)
		}
		message = message[tag+n:]
	}
	c.out = appendFrame(c.out[:0], http2.FrameData, 0, 1, messageHead+len(b))
	c.out = appendMessage(c.out, b)
	_, err := c.conn.Write(c.out)
	c.acked.Add(1)
	return err
}

func appendFrame(b []byte, kind http2.FrameType, flags http2.Flags, stream uint32, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendMessage(b, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(len(body))) //nolint:gosec // messages here are small
	return append(b, body...)
}
