package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/forkmap"
)

// Several ServiceEntries of a namespace may say something of one host: one its HTTP port, another
// one its TLS port. Those that agree on everything but ports, addresses and endpoints are one
// service in the snapshot, under the name of the first. Callers see the ports and endpoints of all
// of them. The Writer keeps what each says, for when one of them changes.

// entryHost is what ServiceEntries have in common that may be one service.
type entryHost struct {
	namespace string
	host      model.Host
}

// entryGroup is several ServiceEntries for one host: what each says, in the total order, and the
// services that the snapshot has of them.
type entryGroup struct{ said, shown []*model.Service }

// entryOf returns a service that a ServiceEntry says, nil for any other object.
func entryOf(o model.Object) *model.Service {
	if svc, is := o.(*model.Service); is && svc != nil && svc.Kind == kinds.ServiceEntry {
		return svc
	}
	return nil
}

// noteEntry notes that a ServiceEntry says something else of a host. nil is nothing.
func (b *batch) noteEntry(old, now *model.Service) {
	svc := cmp.Or(now, old)
	at := entryHost{svc.Namespace, svc.Host}
	if b.dirtyEntries == nil {
		b.dirtyEntries = map[entryHost][]Pair[model.Service]{}
	}
	b.dirtyEntries[at] = append(b.dirtyEntries[at], Pair[model.Service]{Old: old, New: now})
}

// swapEntries puts what ServiceEntries say now into the snapshot, host by host.
func (b *batch) swapEntries(groups *forkmap.Map[entryHost, entryGroup]) {
	if len(b.dirtyEntries) == 0 {
		return
	}
	hosts := slices.SortedFunc(maps.Keys(b.dirtyEntries), func(a, o entryHost) int {
		return cmp.Or(cmp.Compare(a.namespace, o.namespace), cmp.Compare(a.host, o.host))
	})
	for _, at := range hosts {
		before, known := groups.Find(at)
		if !known {
			before = b.singleEntry(at)
		}
		after := before.with(b.dirtyEntries[at])
		b.swapShown(before.shown, after.shown)
		if len(after.said) > 1 {
			groups.Put(at, after)
		} else {
			groups.Drop(at)
		}
	}
}

// singleEntry returns the group of at most one ServiceEntry that the snapshot has for a host.
func (b *batch) singleEntry(at entryHost) entryGroup {
	for svc := range b.next.Claims(at.host) {
		if svc.Kind == kinds.ServiceEntry && svc.Namespace == at.namespace {
			return entryGroup{said: []*model.Service{svc}, shown: []*model.Service{svc}}
		}
	}
	return entryGroup{}
}

// with returns the group after changes of what its members say.
func (g entryGroup) with(changes []Pair[model.Service]) entryGroup {
	said := slices.Clone(g.said)
	for _, p := range changes {
		said = slices.DeleteFunc(said, func(s *model.Service) bool { return p.Old != nil && s.Name == p.Old.Name })
		if p.New != nil {
			said = append(said, p.New)
		}
	}
	slices.SortFunc(said, func(a, o *model.Service) int { return a.Compare(&o.Meta) })
	after := entryGroup{said: said, shown: mergeEntries(said)}
	for i, s := range after.shown {
		was := slices.IndexFunc(g.shown, func(o *model.Service) bool { return model.Equal(o, s) })
		if was >= 0 {
			after.shown[i] = g.shown[was]
		}
	}
	return after
}

// swapShown puts services in the place of others of the same names.
func (b *batch) swapShown(before, after []*model.Service) {
	named := func(list []*model.Service, name string) *model.Service {
		i := slices.IndexFunc(list, func(s *model.Service) bool { return s.Name == name })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	for _, old := range before {
		if named(after, old.Name) == nil {
			b.swapTables(old, nil)
		}
	}
	for _, now := range after {
		switch old := named(before, now.Name); {
		case old == nil:
			b.swapTables(nil, now)
		case old != now:
			b.swapTables(old, now)
		}
	}
}

// mergeEntries returns the services that ServiceEntries for one host come to, in the total order.
func mergeEntries(said []*model.Service) []*model.Service {
	var shown []*model.Service
	own := map[*model.Service]bool{} // made here
	for _, s := range said {
		i := slices.IndexFunc(shown, func(o *model.Service) bool { return agree(o, s) })
		if i < 0 {
			shown = append(shown, s)
			continue
		}
		if !own[shown[i]] {
			shown[i] = cloned(shown[i])
			own[shown[i]] = true
		}
		mergeEntry(shown[i], s)
	}
	return shown
}

// cloned returns a copy of a service that has its own lists of what mergeEntry adds to.
func cloned(s *model.Service) *model.Service {
	c := *s
	c.Ports, c.Endpoints, c.Addresses = slices.Clone(s.Ports), slices.Clone(s.Endpoints), slices.Clone(s.Addresses)
	return &c
}

// agree reports whether two ServiceEntries for a host may be one service.
func agree(a, o *model.Service) bool {
	return a.Resolution == o.Resolution && a.External == o.External && a.Selector == o.Selector &&
		a.Distribution == o.Distribution && slices.Equal(a.SubjectAltNames, o.SubjectAltNames) &&
		model.Equal(&a.ExportTo, &o.ExportTo)
}

// mergeEntry adds what another ServiceEntry says. What was said before counts where both say the
// same port.
func mergeEntry(to, more *model.Service) {
	names := map[string]string{} // of the ports, as the merged service has them
	had := len(to.Ports)
	for _, p := range more.Ports {
		same := slices.IndexFunc(to.Ports, func(o model.ServicePort) bool { return o.Port == p.Port })
		if same >= 0 {
			names[p.Name] = to.Ports[same].Name
			continue
		}
		names[p.Name] = freeName(to.Ports, p)
		p.Name = names[p.Name]
		to.Ports = append(to.Ports, p)
	}
	for _, e := range more.Endpoints {
		e.PortName = names[e.PortName]
		isThere := slices.ContainsFunc(to.Endpoints, func(o model.Endpoint) bool { return isSame(o, e) })
		if to.Resolution == model.LogicalDNS { // a port takes one name
			isThere = isNameOf(to.Ports[:had], e.PortName)
		}
		if !isThere {
			to.Endpoints = append(to.Endpoints, e)
		}
	}
	to.Addresses = model.SortedDistinct(append(to.Addresses, more.Addresses...))
	to.AutoAddress = to.AutoAddress && more.AutoAddress
}

func isSame(a, o model.Endpoint) bool {
	return a.Address == o.Address && a.Port == o.Port && a.PortName == o.PortName
}

func isNameOf(ports []model.ServicePort, name string) bool {
	return slices.ContainsFunc(ports, func(p model.ServicePort) bool { return p.Name == name })
}

// freeName returns a name for a port that no other port has: its own if it can be.
func freeName(ports []model.ServicePort, p model.ServicePort) string {
	name := p.Name
	for isNameOf(ports, name) {
		name = fmt.Sprintf("%s-%d", name, p.Port)
	}
	return name
}
