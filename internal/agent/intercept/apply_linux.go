package intercept

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is the name of our tables.
const tableName = "lateen"

// Apply replaces the rules in a network namespace: that of a file descriptor, or the process's own
// if it is 0. It needs CAP_NET_ADMIN there.
func Apply(o Options, namespace int) error {
	var options []nftables.ConnOption
	if namespace != 0 {
		options = append(options, nftables.WithNetNSFd(namespace))
	}
	c, err := nftables.New(options...)
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	for _, f := range families() {
		if err := setRoutes(o, f, namespace); err != nil {
			return lacking(err)
		}
		setTable(c, f, rulesOf(o, f))
	}
	if err := c.Flush(); err != nil {
		return lacking(fmt.Errorf("nftables: %w", err))
	}
	return nil
}

// lacking says which right is not there.
func lacking(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w; want the capability NET_ADMIN", err)
	}
	return err
}

// families are those that the kernel has.
func families() []family {
	if hasIPv6() {
		return []family{family4, family6}
	}
	return []family{family4}
}

// hasIPv6 reports whether the kernel has IPv6.
func hasIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// setTable replaces a table. Without chains there is none.
func setTable(c *nftables.Conn, f family, chains []chain) {
	of := nftables.TableFamilyIPv4
	if f.is6 {
		of = nftables.TableFamilyIPv6
	}
	table := &nftables.Table{Family: of, Name: tableName}
	c.AddTable(table) // so that there is one to remove
	c.DelTable(table)
	if len(chains) == 0 {
		return
	}
	c.AddTable(table)
	for _, ch := range chains {
		added := c.AddChain(place(table, ch.name))
		for _, r := range ch.rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: added, Exprs: r.expressions(f)})
		}
	}
}

// place returns a chain where the kernel calls it.
func place(table *nftables.Table, name string) *nftables.Chain {
	ch := &nftables.Chain{Name: name, Table: table}
	switch name {
	case inboundChain:
		ch.Type, ch.Hooknum = nftables.ChainTypeNAT, nftables.ChainHookPrerouting
		ch.Priority = nftables.ChainPriorityNATDest
	case outboundChain:
		ch.Type, ch.Hooknum = nftables.ChainTypeNAT, nftables.ChainHookOutput
		ch.Priority = nftables.ChainPriorityNATDest
	case transparentChain:
		ch.Type, ch.Hooknum = nftables.ChainTypeFilter, nftables.ChainHookPrerouting
		ch.Priority = nftables.ChainPriorityMangle
	case returnChain:
		ch.Type, ch.Hooknum = nftables.ChainTypeRoute, nftables.ChainHookOutput
		ch.Priority = nftables.ChainPriorityMangle
	case queryChain:
		ch.Type, ch.Hooknum = nftables.ChainTypeFilter, nftables.ChainHookOutput
		ch.Priority = nftables.ChainPriorityRaw
	case replyChain:
		ch.Type, ch.Hooknum = nftables.ChainTypeFilter, nftables.ChainHookPrerouting
		ch.Priority = nftables.ChainPriorityRaw
	}
	return ch
}

// expressions returns the rule as the kernel reads it.
func (r rule) expressions(f family) []expr.Any {
	var all []expr.Any
	add := func(set bool, parts ...expr.Any) {
		if set {
			all = append(all, parts...)
		}
	}
	add(r.in != "", &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, equal(interfaceOf(r.in)))
	add(r.out != "", &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equal(interfaceOf(r.out)))
	source, destination, length := uint32(12), uint32(16), uint32(4) // in the headers of RFC 791
	if f.is6 {
		source, destination, length = 8, 24, 16 // and RFC 8200
	}
	if r.from.IsValid() {
		add(true, inRange(source, length, r.from.Addr().AsSlice(), r.from.Bits(), false)...)
	}
	if r.to.IsValid() {
		add(true, inRange(destination, length, r.to.Addr().AsSlice(), r.to.Bits(), r.notTo)...)
	}
	protocol := map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}[r.protocol]
	add(r.protocol != "", &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal([]byte{protocol}))
	add(r.source != 0, portAt(0), equal(binaryutil.BigEndian.PutUint16(r.source)))
	add(r.port != 0, portAt(2), equal(binaryutil.BigEndian.PutUint16(r.port)))
	for _, port := range r.notPorts {
		add(true, portAt(2), compare(true, binaryutil.BigEndian.PutUint16(port)))
	}
	if r.user != nil {
		add(true, &expr.Meta{Key: expr.MetaKeySKUID, Register: 1},
			equal(binaryutil.NativeEndian.PutUint32(*r.user)))
	}
	if r.group != nil {
		add(true, &expr.Meta{Key: expr.MetaKeySKGID, Register: 1},
			equal(binaryutil.NativeEndian.PutUint32(*r.group)))
	}
	is := equal(binaryutil.NativeEndian.PutUint32(Mark))
	add(r.marked == packet, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, is)
	add(r.marked == connection, &expr.Ct{Key: expr.CtKeyMARK, Register: 1}, is)
	const replies = 1 // IP_CT_DIR_REPLY of the kernel
	add(r.reply, &expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, equal([]byte{replies}))
	return append(all, r.do.expressions(f)...)
}

func (v verdict) expressions(f family) []expr.Any {
	switch {
	case v.drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	case v.transparent != 0:
		of := map[bool]byte{false: unix.NFPROTO_IPV4, true: unix.NFPROTO_IPV6}[f.is6]
		return []expr.Any{
			&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(v.transparent)},
			&expr.TProxy{Family: of, TableFamily: of, RegPort: 1},
			&expr.Verdict{Kind: expr.VerdictReturn},
		}
	case v.marks == packet:
		return []expr.Any{
			&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
			&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true},
			&expr.Verdict{Kind: expr.VerdictReturn},
		}
	case v.marks == connection:
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
			&expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
			&expr.Verdict{Kind: expr.VerdictReturn},
		}
	case v.redirect != 0:
		return []expr.Any{
			&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(v.redirect)},
			&expr.Redir{RegisterProtoMin: 1},
		}
	case v.zone != 0:
		return []expr.Any{
			&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint16(v.zone)},
			&expr.Ct{Key: expr.CtKeyZONE, Register: 1, SourceRegister: true},
			&expr.Verdict{Kind: expr.VerdictReturn},
		}
	}
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}
}

func equal(data []byte) expr.Any { return compare(false, data) }

func compare(not bool, data []byte) expr.Any {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	return &expr.Cmp{Op: op, Register: 1, Data: data}
}

func interfaceOf(name string) []byte {
	out := make([]byte, unix.IFNAMSIZ)
	copy(out, strings.TrimSpace(name))
	return out
}

// portAt reads a port from the header of TCP or UDP.
func portAt(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}
}

// inRange compares the address at an offset of the IP header with a range.
func inRange(offset, length uint32, address []byte, bits int, not bool) []expr.Any {
	mask := make([]byte, length)
	for n := range bits {
		mask[n/8] |= 1 << (7 - n%8)
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: mask, Xor: make([]byte, length)},
		compare(not, address),
	}
}
