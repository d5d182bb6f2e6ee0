package podnet

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/agent/intercept"
)

// ProxyUID is the proxy's user and group.
const ProxyUID = 1337

// Proxy is the user of proxies.
func Proxy() User { return User{ProxyUID, ProxyUID} }

// exceptions are ports of the proxy's own, to which connections come as they are: its admin
// interface, its statistics and its health.
var exceptions = []uint16{15000, 15020, 15021, 15090}

// Redirect sends the pod's connections to its proxy, by the rules of an injected Pod, and its
// queries of DNS to the agent if that captures them.
func (p *Pod) Redirect(dns bool) error {
	err := intercept.Apply(intercept.Options{
		OutboundPort: 15001, InboundPort: 15006, TunnelPort: 15008, DNSPort: 15053, DNS: dns, AllDNS: dns,
		Users: []uint32{ProxyUID}, Inbound: intercept.Ports{All: true}, NotInbound: exceptions, AllOutbound: true,
	}, int(p.ns))
	if err != nil {
		return fmt.Errorf("pod %s: %w", p.Addr, err)
	}
	return nil
}
