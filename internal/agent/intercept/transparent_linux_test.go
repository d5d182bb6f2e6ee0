package intercept

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// with sets socket options before a socket is bound.
func with(options ...[3]int) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			for _, o := range options {
				if err := unix.SetsockoptInt(int(fd), o[0], o[1], o[2]); err != nil {
					failed = err
				}
			}
		})
		if failed != nil {
			return failed
		}
		return err
	}
}

// passOn serves as a transparent proxy: it calls where a connection was meant to go, from where the
// connection comes from.
func (h *host) passOn(network, address string, transparent [3]int) {
	h.inside(func() {
		listening := net.ListenConfig{Control: with(transparent)}
		l, err := listening.Listen(context.Background(), network, address)
		require.NoError(h.t, err)
		h.t.Cleanup(func() { _ = l.Close() })
		go h.inside(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				from := *c.RemoteAddr().(*net.TCPAddr)
				from.Port = 0
				calling := net.Dialer{
					Timeout: patience, LocalAddr: &from,
					Control: with(transparent, [3]int{unix.SOL_SOCKET, unix.SO_MARK, Mark}),
				}
				var said []byte
				up, err := calling.Dial(network, meant(c.(*net.TCPConn)))
				if err == nil {
					said, err = io.ReadAll(up)
					_ = up.Close()
				}
				_, _ = fmt.Fprintf(c, "by the proxy: %s, %v", said, err)
				_ = c.Close()
			}
		})
	})
}

// meant is where a connection was meant to go, whether its address was changed or not.
func meant(c *net.TCPConn) string {
	to := c.LocalAddr().String()
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	_ = raw.Control(func(fd uintptr) {
		if c.RemoteAddr().(*net.TCPAddr).IP.To4() == nil {
			if is, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST); err == nil {
				to = netip.AddrPortFrom(netip.AddrFrom16(is.Addr.Addr), bits.ReverseBytes16(is.Addr.Port)).String()
			}
			return
		}
		if is, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST); err == nil {
			at := is.Multiaddr // a sockaddr_in: its family, port and address
			to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(at[4:8])), binary.BigEndian.Uint16(at[2:4])).String()
		}
	})
	return to
}

// tellCaller serves who calls.
func (h *host) tellCaller(network, address string) {
	h.inside(func() {
		l, err := net.Listen(network, address)
		require.NoError(h.t, err)
		h.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprint(c, c.RemoteAddr().(*net.TCPAddr).IP)
				_ = c.Close()
			}
		}()
	})
}

// askWithin says why nobody answers a call in time.
func (h *host) askWithin(d time.Duration, address string) (said string) {
	h.inside(func() {
		c, err := net.DialTimeout("tcp", address, d)
		if err != nil {
			said = err.Error()
			return
		}
		_ = c.Close()
	})
	return said
}

// TestATransparentProxyKeepsTheCallersAddress: with TPROXY an application sees its callers.
func TestATransparentProxyKeepsTheCallersAddress(t *testing.T) {
	pod, peer := pair(t)
	o := parsed(t, "-m TPROXY -i * -b * -d 22 -u 1337")
	require.NoError(t, Apply(o, int(pod.ns)))
	pod.inside(func() { // some nodes drop what comes by another way than answers would go
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644))
	})
	for _, network := range []string{"tcp4", "tcp6"} {
		transparent := [3]int{unix.SOL_IP, unix.IP_TRANSPARENT, 1}
		if network == "tcp6" {
			transparent = [3]int{unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1}
		}
		pod.passOn(network, ":15006", transparent)
		pod.tellCaller(network, ":8080")
		pod.tellCaller(network, ":22")
	}
	pod.answer("proxy", "tcp", ":15001")
	peer.answer("peer", "tcp", ":80")
	require.NoError(t, Apply(o, int(pod.ns)), "a second time changes nothing")
	const application, proxy = 1000, 1337
	for _, of := range []struct{ pod, peer, caller string }{
		{"10.244.0.2", "10.244.0.1", "10.244.0.1"}, {"[fd00:244::2]", "[fd00:244::1]", "fd00:244::1"},
	} {
		require.Equal(t, "by the proxy: "+of.caller+", <nil>", peer.ask(0, "tcp", of.pod+":8080"))
		require.Equal(t, of.caller, peer.ask(0, "tcp", of.pod+":22"), "an excluded port")
		require.Contains(t, pod.ask(proxy, "tcp", of.pod+":8080"), "by the proxy: ", "of the proxy's own Pod")
		require.NotContains(t, pod.ask(application, "tcp", of.pod+":8080"), "by the proxy", "it calls itself")
		require.Equal(t, "proxy :15001", pod.ask(application, "tcp", of.peer+":80"))
		require.Equal(t, "peer :80", pod.ask(proxy, "tcp", of.peer+":80"))
	}
	o.None = true
	require.NoError(t, Apply(o, int(pod.ns)))
	require.Equal(t, "10.244.0.1", peer.ask(0, "tcp", "10.244.0.2:8080"), "the rules are gone")
	require.NoError(t, Apply(o, int(pod.ns)), "there is nothing to take back")
}

// TestNobodyGetsInWhereNoProxyListens: with TPROXY as without it, the application is closed until
// its proxy is there.
func TestNobodyGetsInWhereNoProxyListens(t *testing.T) {
	pod, peer := pair(t)
	for _, network := range []string{"tcp4", "tcp6"} {
		pod.tellCaller(network, ":8080")
		pod.tellCaller(network, ":9090")
	}
	require.NoError(t, Apply(parsed(t, "-m TPROXY -i * -b 8080 -u 1337"), int(pod.ns)))
	for _, address := range []string{"10.244.0.2", "[fd00:244::2]"} {
		require.NotContains(t, peer.ask(0, "tcp", address+":9090"), "timeout", "a port that is not named")
		require.Contains(t, peer.askWithin(time.Second, address+":8080"), "timeout")
	}
}
