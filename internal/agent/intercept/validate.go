package intercept

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// ErrNotRedirected says that connections do not come to the proxy. The program that runs Validate
// exits with NotRedirected then, which is how the node agent of Istio's CNI plugin knows a Pod that
// it has to repair.
var ErrNotRedirected = errors.New("connections are not redirected to the proxy")

// NotRedirected is the exit code for ErrNotRedirected: repair.initExitCode of Istio's cni chart.
const NotRedirected = 126

// between is the time from one attempt of Validate to the next.
const between = 100 * time.Millisecond

// Validate reports whether rules that something else has set redirect the proxy's connections to an
// address of the Pod, as Istio's CNI plugin does. It has to run as the proxy's user, and before the
// proxy: it listens at the proxy's ports, and calls the Pod at a port where nobody listens. The
// error is ErrNotRedirected if no call arrives within the time that the options give.
func Validate(ctx context.Context, o Options, pod netip.Addr) error {
	arrived := make(chan struct{}, 1)
	for _, port := range []uint16{o.InboundPort, o.OutboundPort} {
		l, err := net.Listen("tcp", address(loopbackOf(pod), port))
		if err != nil {
			return fmt.Errorf("the rules cannot be validated: %w; want no other process at the proxy's ports", err)
		}
		defer func() { _ = l.Close() }()
		go accept(l, arrived)
	}
	timeout, cancel := context.WithTimeout(ctx, o.ProbeTimeout)
	defer cancel()
	again := time.NewTicker(between)
	defer again.Stop()
	refused := errors.New("there was no time for one")
	for timeout.Err() == nil {
		if err := call(timeout, address(pod, o.ProbePort)); timeout.Err() == nil {
			refused = err
		}
		select {
		case <-arrived:
			return nil
		case <-timeout.Done():
		case <-again.C:
		}
	}
	return notRedirected(ctx, address(pod, o.ProbePort), refused)
}

// notRedirected says why no call has arrived. Who was interrupted knows nothing of the rules.
func notRedirected(ctx context.Context, called string, refused error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the rules were not validated: %w", err)
	}
	return fmt.Errorf("%w: a call to %s did not arrive at it (%w); want the node agent of Istio's CNI plugin "+
		"on this node, and this namespace not among those that it excludes", ErrNotRedirected, called, refused)
}

// accept tells of the first connection.
func accept(l net.Listener, arrived chan<- struct{}) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
		select {
		case arrived <- struct{}{}:
		default:
		}
	}
}

// call connects, and no more.
func call(ctx context.Context, address string) error {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	_ = c.Close()
	return errors.New("something else listens there")
}

func address(of netip.Addr, port uint16) string {
	return net.JoinHostPort(of.String(), strconv.Itoa(int(port)))
}

// loopbackOf returns where redirected connections of the address's family arrive.
func loopbackOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		return family4.loopback.Addr()
	}
	return family6.loopback.Addr()
}

// PodAddresses returns the first address of each family among those of the process's interfaces:
// what is open in one is open.
func PodAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var found []netip.Addr
	for _, one := range all {
		prefix, err := netip.ParsePrefix(one.String())
		a := prefix.Addr()
		known := slices.ContainsFunc(found, func(other netip.Addr) bool { return other.Is4() == a.Is4() })
		if err == nil && a.IsGlobalUnicast() && !known {
			found = append(found, a)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no interface has an address; want one beside loopback")
	}
	return found, nil
}
