package local

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// The second byte of each of a pod's addresses, and the ports that its Envoy takes on the outbound
// address.
const (
	podRange      = 32
	appRange      = 64
	outboundRange = 96
	// unusedRange is never bound by this runtime. A process that answers there listens on all
	// addresses.
	unusedRange = 127

	// AdminPort is where each Envoy's admin interface listens, on the outbound address.
	AdminPort = 15000
	// HTTPProxyPort is where each sidecar takes the app's HTTP calls, on the outbound address.
	HTTPProxyPort = 15080
	// claimPort is held open on the outbound address while a pod has it, so that two runtimes never
	// share addresses.
	claimPort = 15999
)

// slots is how many pods the ranges hold: the third byte is free, the fourth is 1 to 254.
const slots = 256 * 254

// maxProbes limits the search for free addresses. After that many failures a process probably holds
// a port on all addresses, and no further search would help.
const maxProbes = 64

// addresses are the addresses of one pod. App equals Pod if the pod has no sidecar.
type addresses struct {
	slot               uint16
	Pod, App, Outbound netip.Addr
}

func addressesOf(slot uint16) addresses {
	y, z := byte(slot/254), byte(1+slot%254)
	return addresses{
		slot:     slot,
		Pod:      netip.AddrFrom4([4]byte{127, podRange, y, z}),
		App:      netip.AddrFrom4([4]byte{127, appRange, y, z}),
		Outbound: netip.AddrFrom4([4]byte{127, outboundRange, y, z}),
	}
}

// unused returns the address with the same last bytes at which no process should answer.
func (a addresses) unused() netip.Addr {
	pod := a.Pod.As4()
	return netip.AddrFrom4([4]byte{127, unusedRange, pod[2], pod[3]})
}

// allocator assigns addresses. The loop's goroutine owns it.
type allocator struct {
	coolDown time.Duration
	claim    func(addresses, []int32) (io.Closer, error)
	claims   map[uint16]io.Closer
	cooling  map[uint16]time.Time // slot → when it may be used again
}

func newAllocator(coolDown time.Duration) *allocator {
	return &allocator{
		coolDown: coolDown, claim: claimAddresses,
		claims: map[uint16]io.Closer{}, cooling: map[uint16]time.Time{},
	}
}

// take returns free addresses on which all ports can be bound. The search begins at a hash of the
// name, so that a pod gets the same addresses in each run where possible.
func (a *allocator) take(name string, ports []int32, now time.Time) (addresses, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	first := h.Sum32() % slots
	var lastErr error
	for i, tries := uint32(0), 0; i < slots && tries < maxProbes; i++ {
		slot := uint16((first + i) % slots)
		if _, used := a.claims[slot]; used || now.Before(a.cooling[slot]) {
			continue
		}
		tries++
		addrs := addressesOf(slot)
		claim, err := a.claim(addrs, ports)
		if err != nil {
			lastErr = err
			continue
		}
		delete(a.cooling, slot)
		a.claims[slot] = claim
		return addrs, nil
	}
	if lastErr == nil {
		lastErr = errors.New("all are in use or were until a moment ago")
	}
	return addresses{}, fmt.Errorf("no free loopback address: %w", lastErr)
}

// release returns addresses. They are not assigned again before the cool-down is over.
func (a *allocator) release(addrs addresses, now time.Time) {
	if claim, ok := a.claims[addrs.slot]; ok {
		_ = claim.Close()
		delete(a.claims, addrs.slot)
	}
	for slot, until := range a.cooling {
		if !now.Before(until) {
			delete(a.cooling, slot)
		}
	}
	a.cooling[addrs.slot] = now.Add(a.coolDown)
}

// close releases all claims.
func (a *allocator) close() {
	for slot, claim := range a.claims {
		_ = claim.Close()
		delete(a.claims, slot)
	}
}

// claimAddresses checks that all ports of the pod can be bound, then keeps only the claim port
// open.
func claimAddresses(addrs addresses, ports []int32) (io.Closer, error) {
	claim, err := listen(addrs.Outbound, claimPort)
	if err != nil {
		return nil, err
	}
	check := func(a netip.Addr, port int32) error {
		l, err := listen(a, port)
		if err != nil {
			return err
		}
		return l.Close()
	}
	errs := []error{check(addrs.Outbound, AdminPort), check(addrs.Outbound, HTTPProxyPort)}
	for _, port := range ports {
		errs = append(errs, check(addrs.Pod, port), check(addrs.App, port))
	}
	if err := errors.Join(errs...); err != nil {
		_ = claim.Close()
		return nil, err
	}
	return claim, nil
}

func listen(a netip.Addr, port int32) (net.Listener, error) {
	return net.Listen("tcp4", net.JoinHostPort(a.String(), strconv.Itoa(int(port))))
}
