package state

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A host of a ServiceEntry without addresses gets one of each family from a range of the mesh. Each
// host tries places of the range in an order of its own. It has the first place that no host before
// it in the total order has. So addresses are a function of the ServiceEntries alone: the same in
// each process, after each restart, and whatever came in which order. A host moves only if an older
// one comes to its place or leaves one that it tried before (decision 031).
//
// That is a stable matching in which all places prefer the same hosts. So a host that comes or goes
// changes its own place, and those of the few hosts that it displaces or makes room for.

// autoHolder is a host with its place.
type autoHolder struct {
	host  model.Host
	order []byte   // the host's rank among all
	tries []uint32 // the places that it tries
	at    int      // the index of its place in tries; len(tries) if it has none
}

// place returns the holder's place, 0 if it has none.
func (h *autoHolder) place() uint32 {
	if h.at == len(h.tries) {
		return 0
	}
	return h.tries[h.at]
}

// autoAddresses are the places of all hosts.
type autoAddresses struct {
	from    AutoRange
	byHost  index[*autoHolder] // host
	byPlace index[*autoHolder] // place
	passed  index[*autoHolder] // place, order: hosts that tried a place which another one has
}

func placeKey(place uint32) []byte { return binary.BigEndian.AppendUint32(nil, place) }

func passedKey(place uint32, h *autoHolder) []byte { return append(placeKey(place), h.order...) }

// AutoAddresses returns the addresses of a service's host that come from the mesh's range: one of
// IPv4 and one of IPv6. It returns none for a service that may not have them, or if the range is
// full.
func (s *Snapshot) AutoAddresses(svc *model.Service) []string {
	if !svc.AutoAddress {
		return nil
	}
	return s.auto.addressesOf(svc.Host)
}

func (a *autoAddresses) addressesOf(host model.Host) []string {
	h, known := a.byHost.get(join(string(host)))
	if !known || h.place() == 0 {
		return nil
	}
	return a.from.addresses(h.place())
}

// ServicesAtAuto yields the services with a port that is not UDP whose host has an address of the
// mesh's range.
func (s *Snapshot) ServicesAtAuto(address string, port uint16) iter.Seq[*model.Service] {
	return func(yield func(*model.Service) bool) {
		place := s.auto.from.place(address)
		if place == 0 {
			return
		}
		h, held := s.auto.byPlace.get(placeKey(place))
		if !held {
			return
		}
		for svc := range s.Claims(h.host) {
			p, has := svc.Port(port)
			if svc.AutoAddress && has && p.Protocol != model.UDP && !yield(svc) {
				return
			}
		}
	}
}

// allocateAddresses brings the addresses of hosts up to date, and puts into the delta which hosts
// have others than before.
func (b *batch) allocateAddresses() {
	hosts := map[model.Host]bool{}
	for _, p := range b.delta.Services {
		for _, svc := range []*model.Service{p.Old, p.New} {
			if svc != nil && svc.AutoAddress {
				hosts[svc.Host] = true
			}
		}
	}
	if len(hosts) == 0 {
		return
	}
	a := &autoEdit{autoAddresses: &b.next.auto, tx: b.tx, touched: map[model.Host]bool{}}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		a.update(host, b.rankOf(host))
	}
	b.delta.AutoAddresses = changedAddresses(b.from, b.next, maps.Keys(a.touched))
}

// rankOf returns the place of a host in the total order: that of its first service that may have an
// address. It is nil if there is none.
func (b *batch) rankOf(host model.Host) []byte {
	for svc := range b.next.Claims(host) {
		if svc.AutoAddress {
			return ordered(nil, &svc.Meta, svc.Host)
		}
	}
	return nil
}

// changedAddresses returns those of the hosts whose addresses differ between two snapshots, sorted,
// each once.
func changedAddresses(from, to *Snapshot, hosts iter.Seq[model.Host]) []model.Host {
	var changed []model.Host
	for host := range hosts {
		if !slices.Equal(from.auto.addressesOf(host), to.auto.addressesOf(host)) {
			changed = append(changed, host)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// autoEdit is a change of the places.
type autoEdit struct {
	*autoAddresses
	tx      *txn
	touched map[model.Host]bool // hosts whose place may be another
}

// update gives a host the place that its rank has a right to. Without a rank it has none.
func (a *autoEdit) update(host model.Host, rank []byte) {
	h, known := a.byHost.get(join(string(host)))
	if known && bytes.Equal(h.order, rank) {
		return
	}
	if known {
		a.release(h)
	}
	if rank != nil {
		a.place(&autoHolder{host: host, order: rank, tries: a.from.probes(string(host))})
	}
}

// put makes a holder known at its place, and as one that passed the places before.
func (a *autoEdit) put(h *autoHolder) {
	a.touched[h.host] = true
	a.byHost.put(a.tx, join(string(h.host)), h)
	for _, place := range h.tries[:h.at] {
		a.passed.put(a.tx, passedKey(place, h), h)
	}
	if h.place() != 0 {
		a.byPlace.put(a.tx, placeKey(h.place()), h)
	}
}

// take makes a holder unknown.
func (a *autoEdit) take(h *autoHolder) {
	a.touched[h.host] = true
	a.byHost.drop(a.tx, join(string(h.host)))
	for _, place := range h.tries[:h.at] {
		a.passed.drop(a.tx, passedKey(place, h))
	}
	if h.place() != 0 {
		a.byPlace.drop(a.tx, placeKey(h.place()))
	}
}

// place finds a place for a new holder. A holder that comes later in the order gives way, and finds
// another one.
func (a *autoEdit) place(h *autoHolder) {
	for h != nil {
		var displaced *autoHolder
		for ; h.at < len(h.tries); h.at++ {
			other, held := a.byPlace.get(placeKey(h.place()))
			if !held {
				break
			}
			if bytes.Compare(h.order, other.order) < 0 {
				a.take(other)
				displaced = &autoHolder{host: other.host, order: other.order, tries: other.tries, at: other.at + 1}
				break
			}
		}
		a.put(h)
		h = displaced
	}
}

// release makes a holder unknown. The first of those that passed its place takes it, and leaves its
// own to others.
func (a *autoEdit) release(h *autoHolder) {
	a.take(h)
	for free := h.place(); free != 0; {
		next, waits := a.passed.first(placeKey(free))
		if !waits {
			return
		}
		a.take(next)
		a.put(&autoHolder{
			host: next.host, order: next.order, tries: next.tries, at: slices.Index(next.tries, free),
		})
		free = next.place()
	}
}
