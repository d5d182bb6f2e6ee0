package names

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

// Domain is that of the cluster's Services.
const Domain = "svc.cluster.local"

// Names answers from informers, which somebody else starts.
type Names struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister

	mu    sync.Mutex
	added map[string][]netip.Addr
}

// New makes a responder on a factory that is not started yet.
func New(f informers.SharedInformerFactory) *Names {
	return &Names{
		services: f.Core().V1().Services().Lister(),
		slices:   f.Discovery().V1().EndpointSlices().Lister(),
		added:    map[string][]netip.Addr{},
	}
}

// Add makes a name outside of the cluster known.
func (n *Names) Add(name string, addresses ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.added[name] = addresses
}

// Lookup are the addresses of a name as a workload of a namespace says it; none for one that is not
// known.
func (n *Names) Lookup(name, namespace string) []netip.Addr {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	for _, full := range []string{
		name, name + "." + namespace + "." + Domain, name + "." + Domain, name + ".cluster.local",
	} {
		if found := n.resolve(full); len(found) > 0 {
			return found
		}
	}
	return nil
}

func (n *Names) resolve(name string) []netip.Addr {
	n.mu.Lock()
	added := n.added[name]
	n.mu.Unlock()
	if added != nil {
		return added
	}
	base, ok := strings.CutSuffix(name, "."+Domain)
	if !ok {
		return nil
	}
	switch parts := strings.Split(base, "."); len(parts) {
	case 2:
		return n.service(parts[0], parts[1], "")
	case 3:
		return n.service(parts[1], parts[2], parts[0])
	}
	return nil
}

// service are the addresses of a Service, or of one pod of a headless one by its host name.
func (n *Names) service(name, namespace, hostname string) []netip.Addr {
	svc, err := n.services.Services(namespace).Get(name)
	if err != nil {
		return nil
	}
	if ip, err := netip.ParseAddr(svc.Spec.ClusterIP); err == nil && hostname == "" {
		return []netip.Addr{ip}
	}
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		return nil
	}
	list, err := n.slices.EndpointSlices(namespace).List(
		labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}),
	)
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, s := range list {
		for _, e := range s.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if !ready || hostname != "" && (e.Hostname == nil || *e.Hostname != hostname) {
				continue
			}
			for _, a := range e.Addresses {
				if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() {
					found = append(found, ip)
				}
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
}

// Serve answers queries until the connection is closed.
func (n *Names) Serve(conn net.PacketConn) error {
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(n.answer)}
	return server.ActivateAndServe()
}

func (n *Names) answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative = true
	for _, q := range query.Question {
		found := n.resolve(strings.TrimSuffix(strings.ToLower(q.Name), "."))
		if len(found) == 0 {
			reply.Rcode = dns.RcodeNameError
			continue
		}
		if q.Qtype != dns.TypeA {
			continue // the name is there, without such a record
		}
		for _, a := range found {
			header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: a.AsSlice()})
		}
	}
	_ = w.WriteMsg(reply) // who asked may have gone
}
