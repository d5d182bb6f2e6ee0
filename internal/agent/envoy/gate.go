package envoy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxGuests bounds the connections to the admin interface by way of the gate.
	maxGuests = 32
	// A guest who is refused has lingerTime to ask and to read why not, and may send maxUnread
	// bytes.
	lingerTime = 5 * time.Second
	maxUnread  = 64 << 10
)

// Gate passes connections to a TCP port on to Envoy's admin interface, which is on a Unix socket. A
// socket of TCP would be within reach of Envoy's own routes.
type Gate struct {
	Socket string
	// Check returns why the process at from may not connect.
	Check func(from, to netip.AddrPort) error
	// Refused is told about those who may not.
	Refused func(error)
}

// Run serves on a listener until the context ends.
func (g Gate) Run(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	limited := netutil.LimitListener(l, maxGuests)
	var guests sync.WaitGroup
	defer guests.Wait()
	for {
		conn, err := limited.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("port of the admin interface: %w", err)
		}
		guests.Go(func() {
			defer func() { _ = conn.Close() }()
			hangUp := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer hangUp()
			g.serve(ctx, conn)
		})
	}
}

func (g Gate) serve(ctx context.Context, guest net.Conn) {
	if err := g.check(guest); err != nil {
		g.Refused(err)
		refuse(guest, "403 Forbidden", err)
		return
	}
	admin, err := (&net.Dialer{}).DialContext(ctx, "unix", g.Socket)
	if err != nil {
		refuse(guest, "503 Service Unavailable", err)
		return
	}
	hangUp := context.AfterFunc(ctx, func() { _ = admin.Close() })
	defer hangUp()
	defer func() { _ = admin.Close() }()
	var asked sync.WaitGroup
	defer asked.Wait()
	asked.Go(func() {
		_, _ = io.Copy(admin, guest)
		_ = admin.(*net.UnixConn).CloseWrite()
	})
	_, _ = io.Copy(guest, admin)
	_ = guest.Close() // which ends the other direction
}

func (g Gate) check(guest net.Conn) error {
	from, err := netip.ParseAddrPort(guest.RemoteAddr().String())
	if err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(guest.LocalAddr().String())
	if err != nil {
		return err
	}
	return g.Check(from, to)
}

// refuse answers a request without looking at it.
func refuse(guest net.Conn, status string, why error) {
	_ = guest.SetDeadline(time.Now().Add(lingerTime))
	// A client takes no answer before it has asked.
	if _, err := guest.Read(make([]byte, 1)); err != nil {
		return
	}
	body := why.Error() + "\n"
	const head = "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
	_, _ = fmt.Fprintf(guest, head+"%s", status, len(body), body)
	// Closing with unread bytes would reset the connection before the answer is read.
	_, _ = io.CopyN(io.Discard, guest, maxUnread)
}
