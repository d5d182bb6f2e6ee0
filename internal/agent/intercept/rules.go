package intercept

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// family is one of addresses.
type family struct {
	name     string // as nftables has it
	is6      bool
	loopback netip.Prefix
	// inside is where the proxy calls the application from.
	inside netip.Prefix
}

var (
	family4 = family{"ip", false, netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("127.0.0.6/32")}
	family6 = family{"ip6", true, netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::6/128")}
)

// rule is a list of conditions, and what to do when all hold. The zero value of a condition always
// holds.
type rule struct {
	in, out  string // interfaces
	protocol string // tcp or udp
	from     netip.Prefix
	to       netip.Prefix
	notTo    bool // to is where it does not go
	port     uint16
	notPorts []uint16
	source   uint16 // port
	user     *uint32
	group    *uint32
	marked   mark
	reply    bool // of a connection that was opened the other way
	do       verdict
}

// mark is what has to bear the Mark.
type mark uint8

const (
	anything mark = iota
	packet
	connection
)

// verdict is what a rule does: it leaves the connection alone, redirects it to a port, hands it to
// the transparent listener at a port, puts it into a zone of connection tracking, copies the mark,
// or drops the packet. No rule after it is looked at, but where no transparent listener is.
type verdict struct {
	drop        bool
	redirect    uint16
	transparent uint16
	zone        uint16
	marks       mark // packet or connection, by the other's
}

// chain is a list of rules at one place.
type chain struct {
	name  string
	rules []rule
}

// The places of chains.
const (
	inboundChain  = "inbound"     // what comes in, before it is routed
	outboundChain = "outbound"    // what goes out
	queryChain    = "dns-out"     // the same before connections are tracked
	replyChain    = "dns-replies" // what comes in, before connections are tracked

	transparentChain = "inbound-transparent" // what comes in, before it is routed or redirected
	returnChain      = "returns"             // what goes out, before it is routed anew
)

// rulesOf returns the chains of a family of addresses.
func rulesOf(o Options, f family) []chain {
	if o.None {
		return nil
	}
	all := []chain{{inboundChain, inbound(o, f)}, {outboundChain, outbound(o, f)}}
	if o.Transparent {
		all = append(all, chain{transparentChain, transparent(o)}, chain{returnChain, returns()})
	}
	if o.DNS {
		queries, replies := zones(o, f)
		all = append(all, chain{queryChain, queries}, chain{replyChain, replies})
	}
	return all
}

func to(port uint16) verdict { return verdict{redirect: port} }

// inbound redirects to the proxy what comes to the Pod.
func inbound(o Options, f family) []rule {
	var all []rule
	for _, name := range o.NotInterfaces {
		all = append(all, rule{in: name})
	}
	for _, name := range o.Virtual {
		all = append(all, toProxy(o, f, rule{in: name})...)
		all = append(all, rule{in: name})
	}
	if o.Transparent {
		return all
	}
	return append(all, toApplication(o, to(o.InboundPort))...)
}

// toApplication does something with what goes to the application's ports, one after the other.
func toApplication(o Options, does ...verdict) []rule {
	all := []rule{{protocol: "tcp", port: o.TunnelPort}}
	if !o.Inbound.All {
		for _, port := range o.Inbound.Some {
			for _, do := range does {
				all = append(all, rule{protocol: "tcp", port: port, do: do})
			}
		}
		return all
	}
	for _, port := range o.NotInbound {
		all = append(all, rule{protocol: "tcp", port: port})
	}
	for _, do := range does {
		all = append(all, rule{protocol: "tcp", do: do})
	}
	return all
}

// toProxy redirects what goes to the ranges, where the condition holds.
func toProxy(o Options, f family, when rule) []rule {
	when.protocol, when.do = "tcp", to(o.OutboundPort)
	if o.AllOutbound {
		return []rule{when}
	}
	var all []rule
	for _, r := range o.Outbound {
		if r.Addr().Is6() == f.is6 {
			one := when
			one.to = r
			all = append(all, one)
		}
	}
	return all
}

// outbound redirects to the proxy what leaves the Pod.
func outbound(o Options, f family) []rule {
	var all []rule
	for _, name := range o.NotInterfaces {
		all = append(all, rule{out: name})
	}
	if o.Transparent {
		all = append(all, rule{out: "lo", protocol: "tcp", marked: packet})
	}
	for _, port := range o.NotOutboundPorts {
		all = append(all, rule{protocol: "tcp", port: port}, rule{protocol: "udp", port: port})
	}
	all = append(all, rule{out: "lo", from: f.inside})
	all = append(all, byCaller(o, f)...)
	all = append(all, queries(o, f, rule{do: to(o.DNSPort)}, "tcp", "udp")...)
	all = append(all, rule{to: f.loopback})
	for _, r := range o.NotOutbound {
		if r.Addr().Is6() == f.is6 {
			all = append(all, rule{to: r})
		}
	}
	for _, port := range o.OutboundPorts {
		all = append(all, rule{protocol: "tcp", port: port, do: to(o.OutboundPort)})
	}
	return append(all, toProxy(o, f, rule{})...)
}

// byCaller tells the proxy's connections from the application's.
func byCaller(o Options, f family) []rule {
	// The proxy calls its own application by an address of the Pod, as any other of the service's,
	// so that the call passes its own inbound listener.
	own := rule{
		out: "lo", protocol: "tcp", to: f.loopback, notTo: true, notPorts: []uint16{o.TunnelPort},
		do: to(o.InboundPort),
	}
	// The application calls itself without the proxy, unless ranges say that it does not.
	itself := rule{out: "lo"}
	if o.DNS { // a resolver on loopback is one of those whose queries the agent answers
		own.notPorts = append(own.notPorts, dnsPort)
		itself.protocol, itself.notPorts = "tcp", []uint16{dnsPort}
	}
	all := append(ofProxy(o, own), ofProxy(o, rule{})...)
	if !slices.ContainsFunc(o.Outbound, func(p netip.Prefix) bool { return p.Addr().IsLoopback() }) {
		all = append(all, itself)
	}
	return all
}

// ofProxy returns a rule for each user and group of the proxy.
func ofProxy(o Options, like rule) []rule {
	var all []rule
	for n := range o.Users {
		one := like
		one.user = &o.Users[n]
		all = append(all, one)
	}
	for n := range o.Groups {
		one := like
		one.group = &o.Groups[n]
		all = append(all, one)
	}
	return all
}

const dnsPort = 53

// queries returns a rule for each protocol and resolver.
func queries(o Options, f family, like rule, protocols ...string) []rule {
	if !o.DNS {
		return nil
	}
	var all []rule
	like.port = dnsPort
	for _, like.protocol = range protocols {
		if o.AllDNS {
			all = append(all, like)
			continue
		}
		for _, r := range o.Resolvers {
			if r.Is6() == f.is6 {
				like.to = netip.PrefixFrom(r, r.BitLen())
				all = append(all, like)
			}
		}
	}
	return all
}

// zones puts the agent's queries and those of the application into zones of their own. A port that
// the application has used and the agent uses next would else count as the connection that was
// redirected, and the agent would ask itself.
func zones(o Options, f family) (out, replies []rule) {
	const agent, application = 1, 2
	like := func(r rule, zone uint16) rule {
		r.protocol, r.do = "udp", verdict{zone: zone}
		return r
	}
	out = append(ofProxy(o, like(rule{port: dnsPort}, agent)), like(rule{source: o.DNSPort}, application))
	for _, r := range queries(o, f, rule{}, "udp") {
		out = append(out, like(r, application))
	}
	return out, []rule{like(rule{source: dnsPort}, agent)}
}

// Text returns all rules that Apply sets, about as nft writes them.
func Text(o Options) string {
	var b strings.Builder
	for _, f := range []family{family4, family6} {
		for _, ch := range rulesOf(o, f) {
			fmt.Fprintf(&b, "%s %s\n", f.name, ch.name)
			for _, r := range ch.rules {
				fmt.Fprintf(&b, "  %s\n", r)
			}
		}
	}
	return b.String()
}

// String is the rule about as nft writes it.
func (r rule) String() string {
	var b strings.Builder
	word := func(set bool, format string, args ...any) {
		if set {
			fmt.Fprintf(&b, format+" ", args...)
		}
	}
	not := map[bool]string{true: "!= "}
	word(r.in != "", "iifname %s", r.in)
	word(r.out != "", "oifname %s", r.out)
	word(r.from.IsValid(), "saddr %s", r.from)
	word(r.to.IsValid(), "daddr %s%s", not[r.notTo], r.to)
	word(r.protocol != "", "%s", r.protocol)
	word(r.source != 0, "sport %d", r.source)
	word(r.port != 0, "dport %d", r.port)
	for _, port := range r.notPorts {
		word(true, "dport != %d", port)
	}
	if r.user != nil {
		word(true, "skuid %d", *r.user)
	}
	if r.group != nil {
		word(true, "skgid %d", *r.group)
	}
	word(r.reply, "ct direction reply")
	word(r.marked == packet, "mark %d", Mark)
	word(r.marked == connection, "ct mark %d", Mark)
	switch {
	case r.do.redirect != 0:
		word(true, "redirect to :%d", r.do.redirect)
	case r.do.drop:
		word(true, "drop")
	case r.do.transparent != 0:
		word(true, "tproxy to :%d return", r.do.transparent)
	case r.do.marks == packet:
		word(true, "mark set ct mark return")
	case r.do.marks == connection:
		word(true, "ct mark set mark return")
	case r.do.zone != 0:
		word(true, "ct zone set %d return", r.do.zone)
	default:
		word(true, "return")
	}
	return strings.TrimSpace(b.String())
}
