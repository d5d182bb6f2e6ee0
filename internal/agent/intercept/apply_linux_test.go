package intercept

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// patience bounds each exchange: the machine may be busy.
const patience = 30 * time.Second

// The addresses of the Pod under test and of its peer.
var (
	pod4, peer4 = netip.MustParseAddr("10.244.0.2"), netip.MustParseAddr("10.244.0.1")
	pod6, peer6 = netip.MustParseAddr("fd00:244::2"), netip.MustParseAddr("fd00:244::1")
)

// host is a network namespace of its own.
type host struct {
	t  *testing.T
	ns netns.NsHandle
}

// pair returns a Pod and its peer, connected by both families of addresses.
func pair(t *testing.T) (pod, peer *host) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	pod, peer = newHost(t), newHost(t)
	pod.inside(func() {
		link := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(peer.ns)),
		}
		require.NoError(t, netlink.LinkAdd(link))
	})
	pod.up(pod4, pod6, peer4, peer6)
	peer.up(peer4, peer6, netip.Addr{}, netip.Addr{})
	return pod, peer
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t}
	onThread(func() {
		before, err := netns.Get()
		require.NoError(t, err)
		defer func() { _ = before.Close() }()
		h.ns, err = netns.New()
		require.NoError(t, err)
		require.NoError(t, netns.Set(before))
	})
	t.Cleanup(func() { _ = h.ns.Close() })
	return h
}

// onThread runs f on a thread that nothing else uses afterwards.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		f()
	}()
	<-done
}

func (h *host) inside(f func()) {
	onThread(func() {
		if err := netns.Set(h.ns); err != nil {
			h.t.Error(err)
			return
		}
		f()
	})
}

// up gives the host its addresses, and routes by others.
func (h *host) up(address4, address6, via4, via6 netip.Addr) {
	h.inside(func() {
		for name, addresses := range map[string][]string{
			"lo": nil, "eth0": {address4.String() + "/24", address6.String() + "/64"},
		} {
			link, err := netlink.LinkByName(name)
			require.NoError(h.t, err)
			for _, a := range addresses {
				parsed, err := netlink.ParseAddr(a)
				require.NoError(h.t, err)
				parsed.Flags = unix.IFA_F_NODAD
				require.NoError(h.t, netlink.AddrAdd(link, parsed))
			}
			require.NoError(h.t, netlink.LinkSetUp(link))
			for _, via := range []netip.Addr{via4, via6} {
				if name == "eth0" && via.IsValid() {
					route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: via.AsSlice()}
					require.NoError(h.t, netlink.RouteAdd(route))
				}
			}
		}
	})
}

// answer serves TCP or UDP at addresses: whoever says something gets the name and the port.
func (h *host) answer(name, network string, addresses ...string) {
	for _, address := range addresses {
		h.inside(func() {
			says := []byte(name + " " + address[strings.LastIndex(address, ":"):])
			if network == "udp" {
				c, err := net.ListenPacket(network, address)
				require.NoError(h.t, err)
				h.t.Cleanup(func() { _ = c.Close() })
				go func() {
					buffer := make([]byte, 64)
					for {
						_, from, err := c.ReadFrom(buffer)
						if err != nil {
							return
						}
						_, _ = c.WriteTo(says, from)
					}
				}()
				return
			}
			l, err := net.Listen(network, address)
			require.NoError(h.t, err)
			h.t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Write(says)
					_ = c.Close()
				}
			}()
		})
	}
}

// ask says who answers a user's call.
func (h *host) ask(uid int, network, address string, from ...string) string {
	h.t.Helper()
	var said string
	h.inside(func() {
		_, _, _ = unix.Syscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0) // of this thread, for the socket that it opens
		_, _, _ = unix.Syscall(unix.SYS_SETFSGID, uintptr(uid), 0, 0)
		dialer := net.Dialer{Timeout: patience}
		for _, f := range from {
			if network == "udp" {
				dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(f))
			} else {
				dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f))
			}
		}
		c, err := dialer.DialContext(context.Background(), network, address)
		if err != nil {
			said = err.Error()
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		if network == "udp" {
			_, _ = c.Write([]byte("?"))
		}
		buffer := make([]byte, 64)
		n, err := c.Read(buffer)
		if err != nil {
			said = err.Error()
			return
		}
		said = string(buffer[:n])
	})
	return said
}

func parsed(t *testing.T, line string, resolvers ...netip.Addr) Options {
	t.Helper()
	in := Surroundings{Environ: func(string) string { return "" }, Resolvers: resolvers}
	o, err := Parse(strings.Fields(line), in)
	require.NoError(t, err)
	return o
}

// TestConnectionsGoWhereTheRulesSay makes calls in real network namespaces, by both families.
func TestConnectionsGoWhereTheRulesSay(t *testing.T) {
	pod, peer := pair(t)
	pod.answer("proxy", "tcp", ":15001", ":15006", ":15021", ":15008")
	pod.answer("application", "tcp", ":8080", ":22")
	peer.answer("peer", "tcp", ":80", ":3306", ":5000")
	o := parsed(t, "-i * -x 10.244.0.64/26,fd00:244::40/122 -b * -d 15021,22 -o 3306 -u 1337")
	for range 2 { // a second time changes nothing
		require.NoError(t, Apply(o, int(pod.ns)))
	}
	const application = 1000
	for _, of := range []struct {
		name, pod, peer, elsewhere, loopback, inside string
	}{
		{"IPv4", "10.244.0.2", "10.244.0.1", "192.0.2.1", "127.0.0.1", "127.0.0.6:0"},
		{"IPv6", "[fd00:244::2]", "[fd00:244::1]", "[2001:db8::1]", "[::1]", ""},
	} {
		t.Run(of.name, func(t *testing.T) {
			for address, want := range map[string]string{
				":8080":  "proxy :15006",
				":15021": "proxy :15021",
				":15008": "proxy :15008",
				":22":    "application :22",
			} {
				require.Equal(t, want, peer.ask(0, "tcp", of.pod+address), "in: %s", address)
			}
			require.Equal(t, "proxy :15001", pod.ask(application, "tcp", of.peer+":80"))
			require.Equal(t, "proxy :15001", pod.ask(application, "tcp", of.elsewhere+":80"))
			require.Equal(t, "peer :3306", pod.ask(application, "tcp", of.peer+":3306"), "an excluded port")
			require.Equal(t, "peer :80", pod.ask(1337, "tcp", of.peer+":80"), "the proxy itself")
			require.Equal(t, "application :8080", pod.ask(application, "tcp", of.loopback+":8080"))
			require.Equal(t, "application :8080", pod.ask(application, "tcp", of.pod+":8080"), "it calls itself")
			require.Equal(t, "proxy :15006", pod.ask(1337, "tcp", of.pod+":8080"), "by its own inbound listener")
			if of.inside != "" {
				require.Equal(t, "application :8080", pod.ask(1337, "tcp", of.pod+":8080", of.inside),
					"the proxy hands on what came in")
			}
		})
	}
	o.None = true
	require.NoError(t, Apply(o, int(pod.ns)))
	require.Equal(t, "peer :80", pod.ask(application, "tcp", "10.244.0.1:80"), "the rules are gone")
}

// TestRangesAndPortsAreIncluded: only what is named goes to the proxy.
func TestRangesAndPortsAreIncluded(t *testing.T) {
	pod, peer := pair(t)
	pod.answer("proxy", "tcp", ":15001", ":15006")
	pod.answer("application", "tcp", ":8080", ":9090")
	peer.answer("peer", "tcp", ":80", ":5000")
	require.NoError(t, Apply(parsed(t, "-i 192.0.2.0/24,2001:db8::/32 -b 8080 -q 5000"), int(pod.ns)))
	for address, want := range map[string]string{
		"192.0.2.7:80": "proxy :15001", "[2001:db8::7]:80": "proxy :15001",
		"10.244.0.1:80": "peer :80", "[fd00:244::1]:80": "peer :80",
		"10.244.0.1:5000": "proxy :15001",
	} {
		require.Equal(t, want, pod.ask(1000, "tcp", address), address)
	}
	require.Equal(t, "proxy :15006", peer.ask(0, "tcp", "10.244.0.2:8080"))
	require.Equal(t, "application :9090", peer.ask(0, "tcp", "10.244.0.2:9090"))
}

// TestQueriesGoToTheAgent also asks from a port again that an application has used before: the
// agent's own query from there reaches the resolver.
func TestQueriesGoToTheAgent(t *testing.T) {
	pod, peer := pair(t)
	pod.answer("agent", "udp", "127.0.0.1:15053", "[::1]:15053")
	pod.answer("agent", "tcp", "127.0.0.1:15053", "[::1]:15053")
	pod.answer("proxy", "tcp", ":15001")
	peer.answer("resolver", "udp", "10.244.0.1:53", "[fd00:244::1]:53", "10.244.0.1:5353")
	peer.answer("resolver", "tcp", "10.244.0.1:53")
	require.NoError(t, Apply(parsed(t, "-i * -b * --redirect-dns", peer4, peer6), int(pod.ns)))
	for _, of := range []struct{ resolver, from string }{
		{"10.244.0.1:53", "10.244.0.2:40000"}, {"[fd00:244::1]:53", "[fd00:244::2]:40000"},
	} {
		require.Equal(t, "agent :15053", pod.ask(1000, "udp", of.resolver, of.from))
		require.Equal(t, "resolver :53", pod.ask(1337, "udp", of.resolver, of.from), "the agent, from the same port")
		require.Equal(t, "agent :15053", pod.ask(1000, "udp", of.resolver, of.from), "and the application again")
	}
	require.Equal(t, "agent :15053", pod.ask(1000, "tcp", "10.244.0.1:53"))
	require.Equal(t, "resolver :53", pod.ask(1337, "tcp", "10.244.0.1:53"))
	require.Equal(t, "resolver :5353", pod.ask(1000, "udp", "10.244.0.1:5353"), "no query")
}
