package sample

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxLine is the longest line of the TCP echo. A longer one ends its connection.
const maxLine = 64 << 10

// Run serves until the context ends. Then it accepts no new connections and finishes what is in
// flight. listening is called with the addresses once all are open; it may be nil.
func Run(ctx context.Context, o Options, listening func([]net.Addr)) error {
	if err := o.validate(); err != nil {
		return err
	}
	listeners, err := o.listen()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(o), ReadHeaderTimeout: time.Minute, Protocols: &http.Protocols{}}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	lines := &lineEcho{prefix: o.Version, finish: o.finish, linger: o.linger}
	var serving sync.WaitGroup
	var addrs []net.Addr
	for i, l := range listeners {
		addrs = append(addrs, l.Addr())
		_, _ = fmt.Fprintf(o.Log, "%s %s listens at %v\n", o.Role, o.Version, l.Addr())
		if i < len(o.Ports) {
			serving.Go(func() { _ = server.Serve(l) }) // it returns when the server is shut down
		} else {
			serving.Go(func() { lines.serve(ctx, l) })
		}
	}
	if listening != nil {
		listening(addrs)
	}
	<-ctx.Done()
	_, _ = fmt.Fprintf(o.Log, "%s %s ends\n", o.Role, o.Version)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.finish)
	defer cancel()
	err = server.Shutdown(ending)
	serving.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

// listen opens all ports, those for HTTP first. If one fails it opens none.
func (o *Options) listen() (out []net.Listener, err error) {
	for _, port := range append(append([]int(nil), o.Ports...), o.TCP...) {
		l, err := net.Listen("tcp", net.JoinHostPort(o.Address, strconv.Itoa(port)))
		if err != nil {
			for _, open := range out {
				_ = open.Close()
			}
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// lineEcho answers each line with the version in front. When it ends it says so on each connection.
// A client that reads no such line was cut off by somebody else.
type lineEcho struct {
	prefix         string
	finish, linger time.Duration
}

func (e *lineEcho) serve(ctx context.Context, l net.Listener) {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		open.Go(func() { e.answer(ctx, conn) })
	}
}

func (e *lineEcho) answer(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if _, err := fmt.Fprintf(conn, "%s %s\n", e.prefix, lines.Text()); err != nil {
			return
		}
	}
	if ctx.Err() != nil {
		e.sendEnd(conn)
	}
}

// sendEnd says that this is the end, and leaves the closing to the client. A socket that is closed
// with unread data sends a reset, and an Envoy in between drops what it has not passed on yet, this
// line included.
func (e *lineEcho) sendEnd(conn net.Conn) {
	_ = conn.SetWriteDeadline(time.Now().Add(e.finish))
	if _, err := fmt.Fprintf(conn, "%s ends\n", e.prefix); err != nil {
		return // the client has gone
	}
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(e.linger))
	_, _ = io.Copy(io.Discard, conn) // until the client closes, or its time is up
}
