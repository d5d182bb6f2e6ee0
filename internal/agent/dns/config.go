package dns

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// DefaultAddress is where the proxy listens unless DNS_PROXY_ADDR says another. Traffic to port 53
// is redirected to it.
const DefaultAddress = "localhost:15053"

// Options configure a Server. Table and Metrics are required.
type Options struct {
	Table   *Table
	Metrics *Metrics
	// Address is where to listen, as host:port. "localhost" is the loopback address of each family
	// that resolv.conf's resolvers have.
	Address string
	// Namespace is that of the Pod. Domain is its node's, as "default.svc.cluster.local" or
	// "svc.cluster.local".
	Namespace, Domain string
	Resolvers         Resolvers
	// Parallel asks all resolvers at once, not one after the other.
	Parallel bool
	// Timeout is how long resolvers have for a question, all together.
	Timeout time.Duration
}

// Resolvers are what a resolv.conf says.
type Resolvers struct {
	Servers []string // host:port
	Search  []string
}

// ReadResolvers reads a resolv.conf.
func ReadResolvers(from io.Reader) (Resolvers, error) {
	config, err := dns.ClientConfigFromReader(from)
	if err != nil {
		return Resolvers{}, fmt.Errorf("resolv.conf: %w", err)
	}
	r := Resolvers{Search: config.Search}
	for _, server := range config.Servers {
		r.Servers = append(r.Servers, net.JoinHostPort(server, config.Port))
	}
	return r, nil
}

// addresses returns where to listen.
func (o *Options) addresses() ([]string, error) {
	host, port, err := net.SplitHostPort(o.Address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("DNS_PROXY_ADDR: %q: want host:port, as %q", o.Address, DefaultAddress)
	}
	if host != "localhost" {
		return []string{o.Address}, nil
	}
	var v4, v6 bool
	for _, server := range o.Resolvers.Servers {
		if at, err := netip.ParseAddrPort(server); err == nil {
			v4, v6 = v4 || at.Addr().Unmap().Is4(), v6 || at.Addr().Is6() && !at.Addr().Is4In6()
		}
	}
	var found []string
	if v4 || !v6 {
		found = append(found, net.JoinHostPort("127.0.0.1", port))
	}
	if v6 {
		found = append(found, net.JoinHostPort("::1", port))
	}
	return found, nil
}

// names returns how callers say names.
func (o *Options) names() names {
	n := names{namespace: o.Namespace, domain: keyOf(o.Domain)}
	n.domain = strings.TrimPrefix(n.domain, o.Namespace+".")
	if len(o.Resolvers.Search) > 0 {
		n.search = keyOf(o.Resolvers.Search[0])
	}
	return n
}
