package podnet

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The proxy's user, and the ports to which connections are redirected: Istio's.
const (
	ProxyUID     = 1337
	outboundPort = 15001
	inboundPort  = 15006
)

// insideAddress is where the proxy calls the workload from.
var insideAddress = netip.MustParseAddr("127.0.0.6")

// exceptions are ports of the proxy's own, to which connections come as they are: its admin
// interface, its statistics and its health.
var exceptions = []uint16{15000, 15020, 15021, 15090}

// Redirect sends the pod's connections to its proxy, by rules that do what those of Istio's init
// container do.
func (p *Pod) Redirect() error {
	c, err := nftables.New(nftables.WithNetNSFd(int(p.ns)))
	if err != nil {
		return fmt.Errorf("nftables of pod %s: %w", p.Addr, err)
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "proxy"})
	chain := func(name string, hook *nftables.ChainHook, rules ...rule) {
		at := c.AddChain(&nftables.Chain{
			Name:     name,
			Table:    table,
			Type:     nftables.ChainTypeNAT,
			Hooknum:  hook,
			Priority: nftables.ChainPriorityNATDest,
		})
		for _, r := range rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: at, Exprs: append(isTCP(), r...)})
		}
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	chain("outbound", nftables.ChainHookOutput,
		all(leavesByLoopback(expr.CmpOpEq), from(insideAddress), pass()),
		// The proxy calls its own workload by the pod's address, as any other of the service's: in
		// through the front door.
		all(leavesByLoopback(expr.CmpOpEq), to(expr.CmpOpNeq, loopback), byUser(expr.CmpOpEq, ProxyUID),
			redirect(inboundPort)),
		all(leavesByLoopback(expr.CmpOpEq), byUser(expr.CmpOpNeq, ProxyUID), pass()),
		all(byUser(expr.CmpOpEq, ProxyUID), pass()),
		all(to(expr.CmpOpEq, loopback), pass()),
		all(redirect(outboundPort)),
	)
	inbound := make([]rule, 0, len(exceptions)+1)
	for _, port := range exceptions {
		inbound = append(inbound, all(toPort(port), pass()))
	}
	chain("inbound", nftables.ChainHookPrerouting, append(inbound, redirect(inboundPort))...)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables of pod %s: %w", p.Addr, err)
	}
	return nil
}

// rule is a list of conditions, and what to do when all hold.
type rule []expr.Any

func all(parts ...rule) rule {
	var r rule
	for _, p := range parts {
		r = append(r, p...)
	}
	return r
}

func compare(op expr.CmpOp, data []byte) expr.Any { return &expr.Cmp{Op: op, Register: 1, Data: data} }

func isTCP() rule {
	return rule{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, compare(expr.CmpOpEq, []byte{unix.IPPROTO_TCP})}
}

func leavesByLoopback(op expr.CmpOp) rule {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, "lo")
	return rule{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, compare(op, name)}
}

func byUser(op expr.CmpOp, uid uint32) rule {
	return rule{&expr.Meta{Key: expr.MetaKeySKUID, Register: 1}, compare(op, binaryutil.NativeEndian.PutUint32(uid))}
}

// Where addresses and ports stand in headers (RFC 791, RFC 9293), in bytes.
const (
	sourceOffset, destinationOffset = 12, 16
	destinationPortOffset           = 2
)

func from(a netip.Addr) rule {
	return rule{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4},
		compare(expr.CmpOpEq, a.AsSlice()),
	}
}

func to(op expr.CmpOp, a netip.Addr) rule {
	return rule{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4},
		compare(op, a.AsSlice()),
	}
}

func toPort(port uint16) rule {
	return rule{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: destinationPortOffset, Len: 2},
		compare(expr.CmpOpEq, binaryutil.BigEndian.PutUint16(port)),
	}
}

func redirect(port uint16) rule {
	return rule{
		&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.Redir{RegisterProtoMin: 1},
	}
}

func pass() rule { return rule{&expr.Verdict{Kind: expr.VerdictReturn}} }
