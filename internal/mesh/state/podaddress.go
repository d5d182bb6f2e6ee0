package state

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A service that is called by pod (model.Service.IsCalledByPod) has no address of its own: a
// connection is to it if it goes to the address of one of its endpoints. The snapshot has these
// addresses as an index, which is kept up at the cost of the endpoints that change. A mesh without
// such a service has none.

// servicePod says that an endpoint of a service serves one of its ports.
type servicePod struct {
	service  serviceID
	portName string
}

func podKey(address string, service serviceID, id EndpointID) []byte {
	return join(address, string(service.host), service.namespace, service.entry, string(id))
}

// HasServicesCalledByPod reports whether there is a service that is called by pod, so that a mesh
// without makes no keys to look one up by: each change of endpoints asks.
func (s *Snapshot) HasServicesCalledByPod() bool { return s.services.by[servicesCalledByPod].len() > 0 }

// calledByPod returns the service that is called by pod and has an identity, nil if there is none.
func (s *Snapshot) calledByPod(id serviceID) *model.Service {
	svc, _ := s.services.by[servicesCalledByPod].get(id.key())
	return svc
}

// ServicesOfPod returns the services that are called by pod and have an endpoint with an address
// that serves a port, in the total order. The port is the service's.
func (s *Snapshot) ServicesOfPod(address string, port uint16) []*model.Service {
	if !s.HasServicesCalledByPod() {
		return nil
	}
	var found []*model.Service
	for pod := range s.pods.under(join(address)) {
		svc := s.calledByPod(pod.service)
		if p, has := svc.Port(port); has && p.Name == pod.portName && !slices.Contains(found, svc) {
			found = append(found, svc)
		}
	}
	slices.SortFunc(found, func(a, b *model.Service) int {
		return cmp.Or(a.Compare(&b.Meta), cmp.Compare(a.Host, b.Host))
	})
	return found
}

// indexPods brings the addresses of pods up to date with the services and endpoints that changed.
func (b *batch) indexPods() {
	if !b.from.HasServicesCalledByPod() && !b.next.HasServicesCalledByPod() {
		return
	}
	whole := map[serviceID]bool{}
	for _, p := range b.delta.Services {
		for _, svc := range []*model.Service{p.Old, p.New} {
			if svc != nil {
				b.indexPodsOf(serviceIDOf(svc), whole)
			}
		}
	}
	for _, e := range b.delta.Endpoints {
		id := serviceID{host: e.Host, namespace: e.Namespace, entry: e.Entry}
		if whole[id] || b.next.calledByPod(id) == nil {
			continue
		}
		for _, changed := range e.IDs {
			b.dropPod(id, changed, e.From)
			b.putPod(id, changed, e.To)
		}
	}
}

// indexPodsOf indexes all endpoints of a service that begins to be called by pod, or drops those of
// one that ceases, and adds it to whole.
func (b *batch) indexPodsOf(id serviceID, whole map[serviceID]bool) {
	was, is := b.from.calledByPod(id) != nil, b.next.calledByPod(id) != nil
	if was == is || whole[id] {
		return
	}
	whole[id] = true
	if set, has := b.from.endpoints.get(id.key()); was && has {
		for changed := range set.All() {
			b.dropPod(id, changed, set)
		}
	}
	if set, has := b.next.endpoints.get(id.key()); is && has {
		for changed := range set.All() {
			b.putPod(id, changed, set)
		}
	}
}

func (b *batch) dropPod(service serviceID, id EndpointID, set *EndpointSet) {
	if e, has := set.Get(id); has {
		for _, address := range e.IPs() {
			b.next.pods.drop(b.tx, podKey(address, service, id))
		}
	}
}

func (b *batch) putPod(service serviceID, id EndpointID, set *EndpointSet) {
	if e, has := set.Get(id); has {
		for _, address := range e.IPs() {
			b.next.pods.put(b.tx, podKey(address, service, id), servicePod{service, e.PortName})
		}
	}
}
