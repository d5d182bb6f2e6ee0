package state

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// AutoRange is the addresses that hosts of ServiceEntries get that have none of their own: one of
// each family for a place. Places are numbered from 1, and their number is a prime, so that a walk
// with any stride comes to all of them.
type AutoRange struct {
	v4, v6 netip.Addr // the networks' own addresses
	places uint32
}

// The networks that Istio takes addresses from.
const (
	defaultAutoPrefix4 = "240.240.0.0/16"
	defaultAutoPrefix6 = "2001:2::/48"
)

// maxHostBits keeps the number of places below 2^16: the search for a prime and numbers in keys
// stay small.
const maxHostBits = 16

// DefaultAutoRange returns the range that Istio has too, with 65,521 places.
func DefaultAutoRange() AutoRange {
	r, err := NewAutoRange(netip.MustParsePrefix(defaultAutoPrefix4), netip.MustParsePrefix(defaultAutoPrefix6))
	if err != nil {
		panic(err) // the constants are wrong
	}
	return r
}

// NewAutoRange returns the range of an IPv4 and an IPv6 network. Each must have at least three bits
// for hosts; more than 16 are not used.
func NewAutoRange(v4, v6 netip.Prefix) (AutoRange, error) {
	bits := maxHostBits
	for _, p := range []netip.Prefix{v4, v6} {
		host := p.Addr().BitLen() - p.Bits()
		if !p.IsValid() || host < 3 {
			return AutoRange{}, fmt.Errorf(
				"%q: want a network with at least 3 bits for hosts, as %q", p, defaultAutoPrefix4,
			)
		}
		bits = min(bits, host)
	}
	if !v4.Addr().Is4() || !v6.Addr().Is6() || v6.Addr().Is4In6() {
		return AutoRange{}, fmt.Errorf("%q and %q: want a network of IPv4 and one of IPv6", v4, v6)
	}
	// The first address is the network's, the last one the broadcast address.
	return AutoRange{v4: v4.Masked().Addr(), v6: v6.Masked().Addr(), places: primeUpTo(1<<bits - 2)}, nil
}

// primeUpTo returns the largest prime up to n, which is at least 2.
func primeUpTo(n uint32) uint32 {
	isPrime := func(n uint32) bool {
		for d := uint32(2); d*d <= n; d++ {
			if n%d == 0 {
				return false
			}
		}
		return true
	}
	for !isPrime(n) {
		n--
	}
	return n
}

// addresses returns the two addresses of a place.
func (r *AutoRange) addresses(place uint32) []string {
	v4, v6 := r.v4.As4(), r.v6.As16()
	addTo(v4[:], place)
	addTo(v6[:], place)
	return []string{netip.AddrFrom4(v4).String(), netip.AddrFrom16(v6).String()}
}

// addTo adds a number to the last 32 bits of an address, which do not overflow.
func addTo(address []byte, n uint32) {
	last := address[len(address)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)+n)
}

// place returns the place of an address; 0 if it is none of the range.
func (r *AutoRange) place(address string) uint32 {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0
	}
	network, bytes := r.v6.AsSlice(), ip.AsSlice()
	if ip.Is4() {
		network = r.v4.AsSlice()
	}
	head := len(network) - 4
	if len(bytes) != len(network) || !slices.Equal(network[:head], bytes[:head]) {
		return 0
	}
	n := binary.BigEndian.Uint32(bytes[head:]) - binary.BigEndian.Uint32(network[head:])
	if n > r.places {
		return 0
	}
	return n
}

// maxProbes is how many places a host tries. While the range is half full, one host in 2^64 finds
// none.
const maxProbes = 64

// probes returns the places that a host tries, in its order, each once. They depend on the host
// alone. Two hosts with the same first place hardly ever have the same second one.
func (r *AutoRange) probes(host string) []uint32 {
	sum := sha256.Sum256([]byte(host))
	first := uint32(binary.BigEndian.Uint64(sum[:8]) % uint64(r.places))
	stride := 1 + uint32(binary.BigEndian.Uint64(sum[8:16])%uint64(r.places-1))
	list := make([]uint32, min(maxProbes, r.places))
	for i := range list {
		list[i] = 1 + first
		first = (first + stride) % r.places
	}
	return list
}
