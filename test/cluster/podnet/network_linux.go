package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

const bridgeName = "pods"

// Addresses of pods are in Prefix; Gateway is the bridge, where what the pods need of the test
// listens.
var (
	Prefix  = netip.MustParsePrefix("10.244.0.0/16")
	Gateway = netip.MustParseAddr("10.244.0.1")
)

// Network is a bridge in a namespace of its own. It is safe for concurrent use.
type Network struct {
	parent  netns.NsHandle
	links   *netlink.Handle
	bridge  int
	spawner *spawner

	mu   sync.Mutex
	last netip.Addr // addresses are not used twice, so that a stale one reaches nobody
}

// New makes a network. It needs root.
func New() (*Network, error) {
	parent, err := newNamespace()
	if err != nil {
		return nil, err
	}
	return newIn(parent)
}

// Here makes a network whose bridge is in this process's own namespace, so that the process reaches
// Pods by their addresses. That should be one which leads nowhere (Isolated).
func Here() (*Network, error) {
	parent, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("the process's own network namespace: %w", err)
	}
	return newIn(parent)
}

func newIn(parent netns.NsHandle) (*Network, error) {
	n := &Network{parent: parent, last: Gateway}
	if err := n.addBridge(); err != nil {
		_ = parent.Close()
		return nil, err
	}
	n.spawner = newSpawner()
	return n, nil
}

func (n *Network) addBridge() (err error) {
	if n.links, err = netlink.NewHandleAt(n.parent); err != nil {
		return fmt.Errorf("the parent namespace's links: %w", err)
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := n.links.LinkAdd(bridge); err != nil {
		return fmt.Errorf("adding a bridge: %w", err)
	}
	n.bridge = bridge.Index
	return errors.Join(up(n.links, bridge, netip.PrefixFrom(Gateway, Prefix.Bits())), upLoopback(n.links),
		inside(n.parent, forward))
}

// Isolated makes a command start in a network namespace of its own. The program there calls
// UpLoopback first.
func Isolated(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
}

// UpLoopback starts the loopback device of this process's namespace.
func UpLoopback() error {
	links, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer links.Close()
	return upLoopback(links)
}

// forward lets the gateway look for a way on, and say that there is none; else what leads nowhere
// would be lost silently.
func forward() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }

// up gives a link an address and starts it.
func up(links *netlink.Handle, link netlink.Link, at netip.Prefix) error {
	address := &netlink.Addr{IPNet: &net.IPNet{IP: at.Addr().AsSlice(), Mask: net.CIDRMask(at.Bits(), 32)}}
	if err := links.AddrAdd(link, address); err != nil {
		return fmt.Errorf("address %s: %w", at, err)
	}
	return links.LinkSetUp(link)
}

func upLoopback(links *netlink.Handle) error {
	lo, err := links.LinkByName("lo")
	if err != nil {
		return err
	}
	return links.LinkSetUp(lo)
}

// Close stops the spawner and removes the bridge; the namespaces go with what is in them.
func (n *Network) Close() {
	n.spawner.close()
	_ = n.links.LinkDel(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: n.bridge}})
	n.links.Close()
	_ = n.parent.Close()
}

// Listen opens a port at the gateway, for the test itself to serve pods.
func (n *Network) Listen(port int) (l net.Listener, err error) {
	err = inside(n.parent, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(Gateway.String(), fmt.Sprint(port)))
		return err
	})
	return l, err
}

// ListenPacket opens a UDP port at the gateway.
func (n *Network) ListenPacket(port int) (c net.PacketConn, err error) {
	err = inside(n.parent, func() (err error) {
		c, err = net.ListenPacket("udp", net.JoinHostPort(Gateway.String(), fmt.Sprint(port)))
		return err
	})
	return c, err
}

// Dial connects from the gateway, as a node does, to an address (not a name) with a port.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, n.parent, network, address)
}

func (n *Network) next() netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = n.last.Next()
	return n.last
}
