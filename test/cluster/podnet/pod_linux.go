package podnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Pod is a network namespace with an address.
type Pod struct {
	network *Network
	Addr    netip.Addr
	ns      netns.NsHandle
	link    int // its end at the bridge
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
func (p *Pod) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, p.ns, network, address)
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
func (p *Pod) Close() { _ = p.ns.Close() }
