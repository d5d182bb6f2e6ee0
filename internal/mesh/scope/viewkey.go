package scope

import (
	"cmp"
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// SharingKey is what classes must have in common to share compiled units in a step from one
// snapshot to the next. It is comparable. Methods that depend on the class only by this key are not
// recorded.
type SharingKey struct {
	proxy    ProxyType
	settings Settings
	stated   *model.Stated
	was, now model.OutboundPolicy // to unknown destinations
	// listeners is the Sidecar in force if it has listeners of their own, nil if not. In a step
	// that changes it nothing is shared.
	listeners *model.Sidecar
}

// ViewKey is everything that recorded questions depend on in a step, except the ports of workloads.
// The Sidecar in force follows from it. It is comparable.
type ViewKey struct {
	SharingKey
	namespace string
	selectors *model.List[model.Labels]
	matches   *model.List[model.ProxyMatch]
}

// ViewKeyOf returns the ViewKey of a class from its scopes before and after the step.
func ViewKeyOf(from, to *Scope) ViewKey {
	return ViewKey{
		SharingKey: SharingKey{
			to.class.Type, to.class.Settings, to.class.Stated, from.Outbound(), to.Outbound(), limitsPorts(to.sidecar),
		},
		namespace: to.class.Namespace, selectors: to.class.Selectors, matches: to.class.ProxyMatches,
	}
}

// Type returns the role of the class's proxies.
func (s *Scope) Type() ProxyType { return s.class.Type }

// Settings returns the settings of the class's proxies.
func (s *Scope) Settings() Settings { return s.class.Settings }

// Stated returns what the Pods of the class's proxies say of them, nil for nothing.
func (s *Scope) Stated() *model.Stated { return s.class.Stated }

// Headers returns which headers the class's proxies set: as their Pods say, else as the mesh
// configuration does.
func (s *Scope) Headers() model.ProxyHeaders {
	if own := s.class.Stated; own != nil && own.Headers != nil {
		return *own.Headers
	}
	return s.snapshot.Mesh.Headers
}

// Connections returns the settings of connections that come to the class's proxies, as their Pods
// say, else as the mesh configuration does; nil for none.
func (s *Scope) Connections() *model.ConnectionSettings {
	if own := s.class.Stated; own != nil && own.Connections != nil {
		return own.Connections
	}
	return s.snapshot.Mesh.Connections
}

// HTTPProxyPort returns the port on which sidecars are an HTTP proxy: the proxy's own setting, else
// the mesh's (proxyHttpPort). 0 is none.
func (s *Scope) HTTPProxyPort() uint16 {
	return cmp.Or(s.class.Settings.HTTPProxyPort, s.snapshot.Mesh.ProxyHTTPPort)
}

// Intercepts reports whether outbound connections of the workloads are redirected to the class's
// proxies.
func (s *Scope) Intercepts() bool { return s.class.Type == Sidecar && s.class.Settings.Intercepted }

// Outbound says what happens to traffic to unknown hosts.
func (s *Scope) Outbound() model.OutboundPolicy {
	if s.sidecar != nil && s.sidecar.Outbound != nil {
		return *s.sidecar.Outbound
	}
	return s.snapshot.Mesh.Outbound
}

// TakesMeshTLS reports whether the class's proxies can take mutual TLS of the mesh: they have an
// agent that provides their certificate.
func (s *Scope) TakesMeshTLS() bool { return s.class.Settings.Agent }

// CallsInMeshTLS reports whether the class's proxies call endpoints in mutual TLS of the mesh that
// take it, where no DestinationRule says otherwise.
func (s *Scope) CallsInMeshTLS() bool { return s.snapshot.Mesh.AutoTLS && s.TakesMeshTLS() }

// NamesHosts reports whether the class's workloads get names and their addresses from the control
// plane.
func (s *Scope) NamesHosts() bool { return s.class.Type == Sidecar && s.class.Settings.DNSCapture }

// usesAutoAddresses reports whether the class calls hosts by addresses of the mesh's range. It does
// if its workloads get them as answers, and connections to them come to the proxy.
func (s *Scope) usesAutoAddresses() bool { return s.NamesHosts() && s.Intercepts() }

// VIPs returns the addresses that are one IP each by which the class calls a service: its own, else
// those that it has from the mesh's range.
func (s *Scope) VIPs(svc *model.Service) []string {
	if !svc.AutoAddress || !s.usesAutoAddresses() {
		return svc.VIPs()
	}
	addresses := s.snapshot.AutoAddresses(svc)
	if len(addresses) == 0 {
		return nil
	}
	switch s.class.Settings.Stack {
	case model.IPv4Stack:
		return addresses[:1]
	case model.IPv6Stack:
		return addresses[1:]
	}
	return addresses
}

// HasVIP reports whether there are VIPs, which identify connections to the service.
func (s *Scope) HasVIP(svc *model.Service) bool { return len(s.VIPs(svc)) > 0 }

// PortMatch returns how connections to a port of a service are matched without a virtual IP; false
// if virtual IPs match all of them (state.PortMatchOf).
func (s *Scope) PortMatch(svc *model.Service, p model.ServicePort) (kind state.PortMatch, loose bool) {
	if svc.AutoAddress && s.HasVIP(svc) {
		return 0, false
	}
	return state.PortMatchOf(svc, p)
}

// ServicesAt yields the services that have a virtual IP and a port that is not UDP. One that says
// itself that it has the address comes before one that has it from the mesh's range.
func (s *Scope) ServicesAt(address string, port uint16) iter.Seq[*model.Service] {
	own := s.snapshot.ServicesAt(address, port)
	if !s.usesAutoAddresses() {
		return own
	}
	return func(yield func(*model.Service) bool) {
		for _, list := range []iter.Seq[*model.Service]{own, s.snapshot.ServicesAtAuto(address, port)} {
			for svc := range list {
				if slices.Contains(s.VIPs(svc), address) && !yield(svc) {
					return
				}
			}
		}
	}
}
