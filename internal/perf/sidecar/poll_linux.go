package sidecar

import (
	"errors"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// interest is the set of events a socket is watched for.
type interest struct{ read, write bool }

func (i interest) events() uint32 {
	var e uint32
	if i.read {
		e |= unix.EPOLLIN
	}
	if i.write {
		e |= unix.EPOLLOUT
	}
	return e
}

// readiness is an event of a socket.
type readiness struct {
	token       token
	read, write bool
	broken      bool // an error or a reset
}

// token identifies a socket in the poller: a slot, and how often the slot was used before.
type token struct{ slot, generation int32 }

// poller watches sockets. Only its loop calls the methods, except wake.
type poller struct {
	epoll, event int
	events       []unix.EpollEvent
}

// wakeSlot is the slot of the eventfd that wake writes to.
const wakeSlot = -1

func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	p := &poller{epoll: epoll, event: event, events: make([]unix.EpollEvent, 256)}
	if err := p.add(event, token{slot: wakeSlot}, interest{read: true}); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	_ = unix.Close(p.event)
	_ = unix.Close(p.epoll)
}

func (p *poller) add(socket int, t token, i interest) error {
	return p.control(unix.EPOLL_CTL_ADD, socket, t, i)
}

func (p *poller) change(socket int, t token, i interest) error {
	return p.control(unix.EPOLL_CTL_MOD, socket, t, i)
}

func (p *poller) control(op, socket int, t token, i interest) error {
	return unix.EpollCtl(p.epoll, op, socket, &unix.EpollEvent{Events: i.events(), Fd: t.slot, Pad: t.generation})
}

// wait returns events. It waits for at most d, or without limit if d is negative.
func (p *poller) wait(d time.Duration, into []readiness) ([]readiness, error) {
	timeout := -1
	if d >= 0 {
		timeout = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	n, err := unix.EpollWait(p.epoll, p.events, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, err
	}
	for _, e := range p.events[:max(n, 0)] {
		if e.Fd == wakeSlot {
			var counter [8]byte
			_, _ = unix.Read(p.event, counter[:])
			continue
		}
		into = append(into, readiness{
			token: token{e.Fd, e.Pad}, read: e.Events&unix.EPOLLIN != 0, write: e.Events&unix.EPOLLOUT != 0,
			broken: e.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0,
		})
	}
	return into, nil
}

// wake ends the present wait, or else the next.
func (p *poller) wake() {
	_, _ = unix.Write(p.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails only if a wake-up is pending
}

// dial starts a connection. The socket becomes writable when it is established or has failed.
func dial(to netip.AddrPort, from netip.Addr) (int, error) {
	family := unix.AF_INET
	if !to.Addr().Is4() {
		family = unix.AF_INET6
	}
	socket, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = likeEnvoy(socket)
	if err == nil && from.IsValid() {
		// Choose the port at connect, so that each target can use all ports of a source.
		if err = unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err == nil {
			err = unix.Bind(socket, sockaddr(netip.AddrPortFrom(from, 0)))
		}
	}
	if err == nil {
		err = unix.Connect(socket, sockaddr(to))
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(socket)
		return -1, err
	}
	return socket, nil
}

// keepIdle is the keepalive_time of the socket in seconds. Istio's agent has Envoy use the same for
// its connection to the control plane.
const keepIdle = 300

func likeEnvoy(socket int) error {
	for _, o := range []struct{ level, option, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {
			unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle,
		},
	} {
		if err := unix.SetsockoptInt(socket, o.level, o.option, o.value); err != nil {
			return err
		}
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// dialed returns the result of a started connection.
func dialed(socket int) error {
	code, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return err
}

// receive reads what is there. 0 bytes without an error mean that nothing is, and io.EOF that
// nothing will be.
func receive(socket int, p []byte) (int, error) {
	n, err := unix.Read(socket, p)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// transmit writes as much as the socket accepts.
func transmit(socket int, p []byte) (int, error) {
	n, err := unix.Write(socket, p)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}

func closeSocket(socket int) { _ = unix.Close(socket) }
