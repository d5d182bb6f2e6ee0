package wasm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Settings that say which addresses are called.
const (
	PrivateVariable = "LATEEN_WASM_PRIVATE_NETWORKS"
	BlockedVariable = "BLOCKED_CIDRS_IN_WASM_FETCH"
)

// never are the addresses of clouds from which machines get their credentials, beside those that
// are link-local. No module is there.
func never() []netip.Prefix {
	return prefixes("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128")
}

// notPublic are networks that are not reached over the internet, or lead to such ones, beside those
// that netip knows.
func notPublic() []netip.Prefix {
	return prefixes(
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "fec0::/10",
	)
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// check returns an error if "address:port" may not be called.
func (o *Options) check(hostPort string) error {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return fmt.Errorf("%q is no address", hostPort)
	}
	address := at.Addr().Unmap().WithZone("")
	in := func(p netip.Prefix) bool { return p.Contains(address) }
	switch {
	case slices.ContainsFunc(o.Blocked, in):
		return fmt.Errorf("%s is in %s", address, BlockedVariable)
	case address.IsLinkLocalUnicast() || address.IsMulticast() || address.IsUnspecified() ||
		slices.ContainsFunc(never(), in):
		return fmt.Errorf("%s is an address that no module is fetched from", address)
	case slices.ContainsFunc(o.Private, in):
		return nil
	case !address.IsGlobalUnicast() || address.IsPrivate() || slices.ContainsFunc(notPublic(), in):
		return fmt.Errorf("%s is no public address and not in %s", address, PrivateVariable)
	}
	return nil
}

// dialTLS connects to an address by TLS. Whether its certificate is verified depends on the host
// that is called, not on who has named it.
func (o *Options) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := o.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secured := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host, NextProtos: []string{"h2", "http/1.1"},
		InsecureSkipVerify: o.isInsecure(address), //nolint:gosec // as the setting says
	})
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secured, nil
}

// dialTimeout is that of a connection, and of the handshake on it.
const dialTimeout = 10 * time.Second

// dial connects to an address that may be called. It is checked when the name is resolved, for each
// connection: those of redirects and of servers of tokens too.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, Control: func(_, hostPort string, _ syscall.RawConn) error {
		return o.check(hostPort)
	}}
	return d.DialContext(ctx, network, address)
}
