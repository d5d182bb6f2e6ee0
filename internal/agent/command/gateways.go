package command

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
)

// gateways returns the gateways of this machine's default routes. Where the kernel does not say,
// there are none.
func gateways() []netip.Addr {
	var found []netip.Addr
	for table, read := range map[string]func([]string) (netip.Addr, bool){
		"/proc/net/route": gatewayOf4, "/proc/net/ipv6_route": gatewayOf6,
	} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if a, ok := read(strings.Fields(lines.Text())); ok {
				found = append(found, a)
			}
		}
		_ = f.Close()
	}
	return found
}

// gatewayOf4 reads a line of /proc/net/route: interface, destination, gateway, and others, whose
// addresses are words in the machine's order of bytes.
func gatewayOf4(fields []string) (netip.Addr, bool) {
	if len(fields) < 3 || fields[1] != "00000000" {
		return netip.Addr{}, false
	}
	raw, err := hex.DecodeString(fields[2])
	if err != nil || len(raw) != 4 {
		return netip.Addr{}, false
	}
	var a [4]byte
	binary.NativeEndian.PutUint32(a[:], binary.BigEndian.Uint32(raw))
	return netip.AddrFrom4(a), !netip.AddrFrom4(a).IsUnspecified()
}

// gatewayOf6 reads a line of /proc/net/ipv6_route: destination, its length, source, its length,
// next hop, and others.
func gatewayOf6(fields []string) (netip.Addr, bool) {
	if len(fields) < 5 || strings.Trim(fields[0], "0") != "" || fields[1] != "00" {
		return netip.Addr{}, false
	}
	raw, err := hex.DecodeString(fields[4])
	if err != nil || len(raw) != 16 {
		return netip.Addr{}, false
	}
	a := netip.AddrFrom16([16]byte(raw))
	return a, !a.IsUnspecified()
}
