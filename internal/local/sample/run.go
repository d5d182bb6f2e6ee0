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

// maxLine bounds a line of the TCP echo; a longer one ends its connection.
const maxLine = 64 << 10

// Run serves until the context ends, then takes no new connections and finishes what is in flight.
// Listening gets the addresses once all are open; it may be nil.
func Run(ctx context.Context, o Options, listening func([]net.Addr)) error {
	if err := o.validate(); err != nil {
		return err
	}
	listeners, err := o.listen()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(o), ReadHeaderTimeout: time.Minute}
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

// listen opens all ports, those for HTTP first, or none.
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

// lineEcho answers each line with the version in front, so that a client sees who it talks to. When
// it ends itself it says so on each connection; a client to which it does not say so was cut off by
// somebody else.
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
		e.part(conn)
	}
}

// part says that this is the end, and leaves the closing to the client: a socket that is closed
// with something unread in it sends a reset, and an Envoy between the two that meets one drops what
// it has not passed on yet, the farewell with it.
func (e *lineEcho) part(conn net.Conn) {
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
