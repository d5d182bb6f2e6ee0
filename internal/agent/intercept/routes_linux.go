package intercept

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// setRoutes has marked packets stay in the Pod whatever their address, or takes that back.
func setRoutes(o Options, f family, namespace int) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if namespace != 0 {
		h, err = netlink.NewHandleAt(netns.NsHandle(namespace), unix.NETLINK_ROUTE)
	}
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer h.Close()
	rule := netlink.NewRule()
	rule.Mark, rule.Table, rule.Family = Mark, routes, unix.AF_INET
	everywhere := net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if f.is6 {
		rule.Family, everywhere = unix.AF_INET6, net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	if o.None || !o.Transparent {
		err := h.RuleDel(rule)
		isNone := errors.Is(err, unix.ENOENT) ||
			errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) // the kernel has no such rules
		if err == nil || isNone {
			return nil
		}
		return fmt.Errorf("removing the routing rule for mark %d: %w", Mark, err)
	}
	loopback, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	local := &netlink.Route{
		LinkIndex: loopback.Attrs().Index, Dst: &everywhere, Table: routes, Type: unix.RTN_LOCAL,
		Scope: netlink.SCOPE_HOST,
	}
	err = h.RouteReplace(local)
	if f.is6 && errors.Is(err, unix.EACCES) {
		return nil // the Pod has IPv6 switched off
	}
	if err != nil {
		return fmt.Errorf("the route to loopback for mark %d: %w", Mark, err)
	}
	if err := h.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("the routing rule for mark %d: %w", Mark, err)
	}
	return nil
}
