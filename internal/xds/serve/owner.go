package serve

import (
	"net"
	"net/netip"
	"time"
)

// owner is on whose account a client's limits and memory go. Nothing in it is what the client
// claims.
type owner struct {
	identity Identity
	// peer is the client's address, unless its Pod is proven: pods may share a service account.
	peer netip.Addr
}

func ownerOf(id Identity, peer net.Addr) owner { return owner{peer: hostOf(peer)}.identified(id) }

// identified returns the owner once its identity is known.
func (o owner) identified(id Identity) owner {
	id.Expires = time.Time{} // a new token makes no new owner
	o.identity = id
	if id.Pod != "" {
		o.peer = netip.Addr{}
	}
	return o
}

// hostOf returns the IP address of a connection's end; the zero Addr if it has none.
func hostOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// isLocal reports whether it is this machine, or this Pod, that the client is on, and no Pod is
// proven: all simulated proxies of a measurement, and all proxies of a local mesh, are one such
// owner.
func (o owner) isLocal() bool {
	return o.identity.Pod == "" && (!o.peer.IsValid() || o.peer.IsLoopback())
}

// String returns the identity, and the Pod or the address.
func (o owner) String() string {
	if o.identity.Pod != "" {
		return o.identity.String() + " pod " + o.identity.Pod
	}
	return o.identity.String() + " at " + o.peer.String()
}
