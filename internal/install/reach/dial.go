package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Dial connects to a port of a Pod. ctx bounds the connecting alone.
func (c *Cluster) Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	dialer, err := c.dialer(namespace, pod)
	if err != nil {
		return nil, err
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() { // the library's dialer takes no context
		conn, err := connect(dialer, pod, port)
		if err != nil {
			err = fmt.Errorf("connecting to port %d of Pod %s/%s: %w", port, namespace, pod, err)
		}
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.conn != nil {
				_ = r.conn.Close()
			}
		}()
		return nil, fmt.Errorf("connecting to port %d of Pod %s/%s: %w", port, namespace, pod, ctx.Err())
	}
}

// dialer asks for streams over a WebSocket, and over SPDY where a proxy or an old API server does
// not let that through, as kubectl does.
func (c *Cluster) dialer(namespace, pod string) (httpstream.Dialer, error) {
	at := c.client.RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, c.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	plain := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return portforward.NewFallbackDialerForStreaming(websocket, plain, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// connect opens the two streams of one forwarded connection: one for data, and one on which the
// kubelet tells an error.
func connect(dialer httpstream.Dialer, pod string, port int) (net.Conn, error) {
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failure, err := connection.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	_ = failure.Close() // for writing
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	f := &forwarded{Stream: data, connection: connection, at: address{pod, port}, failed: make(chan struct{})}
	go f.awaitFailure(failure)
	return f, nil
}

// forwarded is a connection to a Pod's port. Deadlines do nothing: whoever waits too long closes
// it.
type forwarded struct {
	httpstream.Stream
	connection httpstream.Connection
	at         address
	failed     chan struct{} // closed when the kubelet has told how the connection went
	failure    string
}

// longestFailure bounds what is read of a kubelet's message, in bytes.
const longestFailure = 4096

func (f *forwarded) awaitFailure(s httpstream.Stream) {
	defer close(f.failed)
	message, _ := io.ReadAll(io.LimitReader(s, longestFailure))
	f.failure = string(message)
}

// Read implements net.Conn. Where the kubelet could not connect, its words are the error.
func (f *forwarded) Read(b []byte) (int, error) {
	n, err := f.Stream.Read(b)
	if n > 0 || err == nil {
		return n, err
	}
	select {
	case <-f.failed:
	case <-f.connection.CloseChan():
	case <-time.After(time.Second): // the message comes with the end of the data, or never
	}
	select {
	case <-f.failed:
		if f.failure != "" {
			err = errors.New(f.failure)
		}
	default:
	}
	return n, err
}

// Close implements net.Conn.
func (f *forwarded) Close() error { return errors.Join(f.Reset(), f.connection.Close()) }

// LocalAddr implements net.Conn.
func (f *forwarded) LocalAddr() net.Addr { return f.at }

// RemoteAddr implements net.Conn.
func (f *forwarded) RemoteAddr() net.Addr { return f.at }

// SetDeadline implements net.Conn.
func (*forwarded) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (*forwarded) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (*forwarded) SetWriteDeadline(time.Time) error { return nil }

// address is a port of a Pod.
type address struct {
	pod  string
	port int
}

// Network implements net.Addr.
func (address) Network() string { return "pod" }

// String implements net.Addr.
func (a address) String() string { return net.JoinHostPort(a.pod, strconv.Itoa(a.port)) }
