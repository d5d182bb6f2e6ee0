package podnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Pod is a network namespace with an address.
type Pod struct {
	network *Network
	Addr    netip.Addr
	link    int // its end at the bridge

	closing sync.Mutex // guards ns against its end
	ns      netns.NsHandle
}

// AddPod makes a namespace with an address that no other had.
func (n *Network) AddPod() (*Pod, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	p := &Pod{network: n, Addr: n.next(), ns: ns}
	if err := p.connect(); err != nil {
		_ = ns.Close()
		return nil, fmt.Errorf("connecting pod %s: %w", p.Addr, err)
	}
	return p, nil
}

func (p *Pod) connect() error {
	n := p.network
	octets := p.Addr.As4()
	outer := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("pod%d-%d", octets[2], octets[3]), MasterIndex: n.bridge},
		PeerName:  "eth0", PeerNamespace: netlink.NsFd(p.ns),
	}
	if err := n.links.LinkAdd(outer); err != nil {
		return fmt.Errorf("adding its link: %w", err)
	}
	p.link = outer.Index
	if err := n.links.LinkSetUp(outer); err != nil {
		return err
	}
	links, err := netlink.NewHandleAt(p.ns)
	if err != nil {
		return err
	}
	defer links.Close()
	eth0, err := links.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := upLoopback(links); err != nil {
		return err
	}
	if err := up(links, eth0, netip.PrefixFrom(p.Addr, Prefix.Bits())); err != nil {
		return err
	}
	// Connections to virtual IPs need a way out, though they are redirected before they take it.
	return links.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.IP(Gateway.AsSlice())})
}

// OpenLowPorts lets programs of all users listen at ports below 1024, the sysctl
// net.ipv4.ip_unprivileged_port_start of a Pod with the value 0.
func (p *Pod) OpenLowPorts() error {
	return inside(p.ns, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644)
	})
}

// Dial connects from within the pod to an address (not a name) with a port, as its workload does.
// An http.Transport may still dial when the request that wanted it has ended, and the pod with it.
func (p *Pod) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ns, err := p.hold()
	if err != nil {
		return nil, fmt.Errorf("the network namespace of pod %s: %w", p.Addr, err)
	}
	defer func() { _ = ns.Close() }()
	return dial(ctx, ns, network, address)
}

// hold gives another handle of the namespace, which stays when the pod ends.
func (p *Pod) hold() (netns.NsHandle, error) {
	p.closing.Lock()
	defer p.closing.Unlock()
	fd, err := unix.FcntlInt(uintptr(p.ns), unix.F_DUPFD_CLOEXEC, 0)
	return netns.NsHandle(fd), err
}

// Listen opens a port in the pod, as its workload does.
func (p *Pod) Listen(address string) (l net.Listener, err error) {
	err = inside(p.ns, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l, err
}

// Unplug takes the pod off the network: packets to its address are lost, as when its machine is.
func (p *Pod) Unplug() error {
	link, err := p.network.links.LinkByIndex(p.link)
	if err != nil {
		return err
	}
	return p.network.links.LinkDel(link)
}

// Close lets go of the namespace, which ends with the last process in it.
func (p *Pod) Close() {
	p.closing.Lock()
	defer p.closing.Unlock()
	_ = p.ns.Close()
}
