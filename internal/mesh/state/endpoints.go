package state

import (
	"cmp"
	"iter"
	"net"
	"slices"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// EndpointSet are the endpoints of one service. Several contributors (slices, workloads, a
// ServiceEntry's own list) may claim one endpoint, as when it moves from slice to slice; the first
// by name counts. It never changes.
type EndpointSet struct {
	claims index[model.Endpoint] // endpoint id, contributor
	plain  []portCount           // by port name: the endpoints that do not take TLS of the mesh; none is 0
}

var noEndpoints = &EndpointSet{claims: newIndex[model.Endpoint](nil)}

// EndpointID names an endpoint within its service: address, port and the service port that it
// serves.
type EndpointID string

func idOf(e *model.Endpoint) EndpointID {
	return EndpointID(net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port))) + "/" + e.PortName)
}

// Known returns an endpoint of the same address and ports as one that a ServiceEntry lists.
func (s *EndpointSet) Known(listed *model.Endpoint) (model.Endpoint, bool) {
	return s.Get(idOf(listed))
}

// Get finds an endpoint.
func (s *EndpointSet) Get(id EndpointID) (model.Endpoint, bool) {
	return s.claims.first(join(string(id)))
}

// All yields the endpoints by id.
func (s *EndpointSet) All() iter.Seq2[EndpointID, model.Endpoint] {
	return func(yield func(EndpointID, model.Endpoint) bool) {
		var last EndpointID
		for e := range s.claims.under(nil) {
			id := idOf(&e)
			if id == last {
				continue
			}
			last = id
			if !yield(id, e) {
				return
			}
		}
	}
}

// IsEmpty reports whether there are no endpoints.
func (s *EndpointSet) IsEmpty() bool { return s.claims.len() == 0 }

// AllTakeTLS reports whether there are endpoints, and all that serve a port are called in mutual
// TLS of the mesh.
func (s *EndpointSet) AllTakeTLS(portName string) bool {
	return !s.IsEmpty() && !slices.ContainsFunc(s.plain, func(c portCount) bool { return c.name == portName })
}

// TakesTLSLike reports whether AllTakeTLS is the same for each port of two sets.
func (s *EndpointSet) TakesTLSLike(o *EndpointSet) bool {
	same := func(a, b portCount) bool { return a.name == b.name }
	return s.IsEmpty() == o.IsEmpty() && slices.EqualFunc(s.plain, o.plain, same)
}

// portCount is a number of endpoints that serve a port.
type portCount struct {
	name  string
	count int
}

// serviceID tells apart the services that endpoints belong to. A ServiceEntry for the host of
// another one, or of a Service, has its own: they count when it is the one in force.
type serviceID struct {
	host      model.Host
	namespace string
	entry     string // the name of a ServiceEntry; empty for a Service of Kubernetes
}

func serviceIDOf(svc *model.Service) serviceID {
	id := serviceID{host: svc.Host, namespace: svc.Namespace}
	if svc.Kind == kinds.ServiceEntry {
		id.entry = svc.Name
	}
	return id
}

func (id serviceID) key() []byte { return join(string(id.host), id.namespace, id.entry) }

// contribution is what one contributor says of one service.
type contribution struct {
	service     serviceID
	contributor string
	endpoints   []model.Endpoint
	accounts    []string // of the workloads, and of those that have addresses and are no endpoints
}

// fromSlice joins a slice with its pods and counts the hosts whose pod is not known yet. Such a
// host is left out until its pod comes, because the pod's labels decide its subsets.
func (b *batch) fromSlice(s *model.EndpointSlice, at *Snapshot) (*contribution, int) {
	c := &contribution{
		service:     serviceID{host: model.Resolve(s.Service, s.Namespace, b.next.Mesh.Domain), namespace: s.Namespace},
		contributor: "slice/" + s.Name,
	}
	pending := 0
	for _, h := range s.Hosts {
		e := model.Endpoint{Address: h.Address, Health: h.Health, Node: h.Node, Hints: h.Hints, Hostname: h.Hostname}
		if h.Pod != "" {
			pod := at.Workload(s.Namespace, h.Pod)
			if pod == nil {
				pending++
				continue
			}
			c.addAccount(pod.ServiceAccount)
			e.Labels, e.Workload, e.Locality = pod.Labels, pod.Namespace+"/"+pod.Name, pod.Locality
			e.Other = pod.OtherAddress(h.Address)
			e.Node = cmp.Or(h.Node, pod.Node)
			if v, _ := pod.Labels.Get(model.DrainingLabel); v != "" {
				e.Health = model.Draining
			}
		}
		e.Locality = cmp.Or(at.localityOn(e.Node, e.Locality), model.Locality{Zone: h.Zone})
		for _, p := range s.Ports {
			e.Port, e.PortName = p.Port, p.Name
			c.endpoints = append(c.endpoints, e)
		}
	}
	for _, name := range s.Unready {
		if pod := at.Workload(s.Namespace, name); pod != nil {
			c.addAccount(pod.ServiceAccount)
		}
	}
	return c.markTLS(at), pending
}

// addAccount adds a service account unless it is empty.
func (c *contribution) addAccount(account string) {
	if account != "" {
		c.accounts = append(c.accounts, account)
	}
}

// fromEntry returns the endpoints that a ServiceEntry lists itself.
func fromEntry(svc *model.Service, at *Snapshot) *contribution {
	c := contribution{service: serviceIDOf(svc), contributor: "entry", endpoints: slices.Clone(svc.Endpoints)}
	for i := range svc.Endpoints {
		c.addAccount(svc.Endpoints[i].Account)
	}
	return c.markTLS(at)
}

// fromSelector returns the endpoints that one workload of the namespace contributes to a
// ServiceEntry with a workloadSelector.
func fromSelector(svc *model.Service, w *model.Workload, at *Snapshot) *contribution {
	c := &contribution{service: serviceIDOf(svc), contributor: "pod/" + w.Name}
	if !svc.Selector.Selects(w.Labels) || len(w.Addresses) == 0 {
		return c
	}
	c.addAccount(w.ServiceAccount)
	for _, p := range svc.Ports {
		port := p.Target
		if port == 0 {
			port = w.Ports.Number(p.TargetName)
		}
		if port == 0 {
			port = p.Port
		}
		c.endpoints = append(c.endpoints, model.Endpoint{
			Address: w.Addresses[0], Port: port, PortName: p.Name, Labels: w.Labels, Locality: at.LocalityOf(w),
			Workload: w.Namespace + "/" + w.Name, Node: w.Node,
		})
	}
	return c.markTLS(at)
}

// selectsEndpoints reports whether the endpoints of a service are the workloads that it selects.
// Those of a Kubernetes Service come from slices.
func selectsEndpoints(svc *model.Service) bool {
	return svc.Kind == kinds.ServiceEntry && !svc.Selector.IsEmpty()
}
