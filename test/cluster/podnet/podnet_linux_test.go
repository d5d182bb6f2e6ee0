package podnet_test

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == podnet.InitCommand {
		fmt.Fprintln(os.Stderr, podnet.Init(os.Args[2:]))
		os.Exit(1)
	}
	leak.Main(m)
}

func newNetwork(t *testing.T) *podnet.Network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n, err := podnet.New()
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

func newPod(t *testing.T, n *podnet.Network) *podnet.Pod {
	t.Helper()
	p, err := n.AddPod()
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// run starts a shell command in a pod, and returns what it writes.
func run(t *testing.T, p *podnet.Pod, uid int, script string) *bufio.Reader {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	resolv := t.TempDir() + "/resolv.conf"
	require.NoError(t, os.WriteFile(resolv, []byte("nameserver 10.244.0.1\n"), 0o644))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	process, err := p.Start(podnet.Command{
		Args: podnet.InitArgs(self, resolv, podnet.User{UID: uid, GID: uid}, []string{"/bin/sh", "-c", script}),
		Env:  os.Environ(), Output: w,
	})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	t.Cleanup(func() { process.Kill(); _ = r.Close() })
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	return bufio.NewReader(r)
}

func TestProcessesOfAPodAreAlone(t *testing.T) {
	n := newNetwork(t)
	p := newPod(t, n)
	out := run(t, p, podnet.ProxyUID,
		"id -u; cat /etc/resolv.conf; ls /sys/class/net >/dev/null; cat /proc/net/route | wc -l")
	// the header, the default route, that to the other pods
	for _, want := range []string{"1337\n", "nameserver 10.244.0.1\n", "3\n"} {
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
}

// Pods reach each other and the gateway, and nothing else.
func TestPodNetworkHasNoWayOut(t *testing.T) {
	n := newNetwork(t)
	a, b := newPod(t, n), newPod(t, n)
	l, err := n.Listen(8080)
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	conn, err := a.Dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, err = a.Dial(t.Context(), "tcp", netip.AddrPortFrom(b.Addr, 8080).String())
	require.ErrorContains(t, err, "connection refused", "the pod is reached, though nobody listens")
	_, err = a.Dial(t.Context(), "tcp", "192.0.2.1:80")
	require.ErrorContains(t, err, "network is unreachable")
	_, err = n.Dial(t.Context(), "tcp", "192.0.2.1:80")
	require.ErrorContains(t, err, "network is unreachable")
}

// What comes in goes to one port, what goes out to another.
func TestConnectionsAreRedirected(t *testing.T) {
	n := newNetwork(t)
	p := newPod(t, n)
	require.NoError(t, p.Redirect(false))
	accept := func(port string) <-chan string {
		l, err := p.Listen("0.0.0.0:" + port)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		from := make(chan string, 1)
		go func() {
			if conn, err := l.Accept(); err == nil {
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				_ = conn.Close()
				from <- host
			}
		}()
		return from
	}
	outbound, inbound, exception := accept("15001"), accept("15006"), accept("15021")
	for address, dial := range map[string]func() (net.Conn, error){
		"in":      func() (net.Conn, error) { return n.Dial(t.Context(), "tcp", p.Addr.String()+":9080") },
		"out":     func() (net.Conn, error) { return p.Dial(t.Context(), "tcp", "10.96.0.7:80") },
		"but not": func() (net.Conn, error) { return n.Dial(t.Context(), "tcp", p.Addr.String()+":15021") },
	} {
		conn, err := dial()
		require.NoError(t, err, address)
		require.NoError(t, conn.Close())
	}
	require.Equal(t, podnet.Gateway.String(), <-inbound)
	require.Equal(t, p.Addr.String(), <-outbound)
	require.Equal(t, podnet.Gateway.String(), <-exception)
}

// TestAPodEndsWhileSomebodyDials: an http.Transport dials on when its request has ended.
func TestAPodEndsWhileSomebodyDials(t *testing.T) {
	p := newPod(t, newNetwork(t))
	var dialing sync.WaitGroup
	for range 20 {
		dialing.Go(func() {
			_, err := p.Dial(t.Context(), "tcp", "127.0.0.1:9")
			assert.Error(t, err)
		})
	}
	p.Close()
	dialing.Wait()
	_, err := p.Dial(t.Context(), "tcp", "127.0.0.1:9")
	require.ErrorIs(t, err, unix.EBADF)
}

func TestUnpluggedPodAnswersNothing(t *testing.T) {
	n := newNetwork(t)
	p := newPod(t, n)
	require.NoError(t, p.Unplug())
	_, err := n.Dial(t.Context(), "tcp", p.Addr.String()+":80")
	require.ErrorContains(t, err, "no route to host")
}
