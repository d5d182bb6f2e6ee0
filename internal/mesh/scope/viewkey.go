package scope

import (
	"cmp"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// SharingKey is what classes must have in common to share compiled units in a step from one
// snapshot to the next. It is comparable. Methods that depend on the class only by this key are not
// recorded.
type SharingKey struct {
	proxy                ProxyType
	settings             Settings
	closedWas, closedNow bool // to unknown destinations
}

// ViewKey is everything that recorded questions depend on in a step, except the ports of workloads.
// The Sidecar in force follows from it. It is comparable.
type ViewKey struct {
	SharingKey
	namespace string
	selectors *model.List[model.Labels]
}

// ViewKeyOf returns the ViewKey of a class from its scopes before and after the step.
func ViewKeyOf(from, to *Scope) ViewKey {
	return ViewKey{
		SharingKey: SharingKey{to.class.Type, to.class.Settings, from.RegistryOnly(), to.RegistryOnly()},
		namespace:  to.class.Namespace, selectors: to.class.Selectors,
	}
}

// Type returns the role of the class's proxies.
func (s *Scope) Type() ProxyType { return s.class.Type }

// Settings returns the settings of the class's proxies.
func (s *Scope) Settings() Settings { return s.class.Settings }

// HTTPProxyPort returns the port on which sidecars are an HTTP proxy: the proxy's own setting, else
// the mesh's (proxyHttpPort). 0 is none.
func (s *Scope) HTTPProxyPort() uint16 {
	return cmp.Or(s.class.Settings.HTTPProxyPort, s.snapshot.Mesh.ProxyHTTPPort)
}

// Intercepts reports whether outbound connections of the workloads are redirected to the class's
// proxies.
func (s *Scope) Intercepts() bool { return s.class.Type == Sidecar && s.class.Settings.Intercepted }

// RegistryOnly reports whether traffic to unknown hosts is refused.
func (s *Scope) RegistryOnly() bool {
	if s.sidecar != nil && s.sidecar.Outbound != nil {
		return s.sidecar.Outbound.RegistryOnly
	}
	return s.snapshot.Mesh.Outbound.RegistryOnly
}

// TakesMeshTLS reports whether the class's proxies can take mutual TLS of the mesh: they have an
// agent that provides their certificate.
func (s *Scope) TakesMeshTLS() bool { return s.class.Settings.Agent }

// CallsInMeshTLS reports whether the class's proxies call endpoints in mutual TLS of the mesh that
// take it, where no DestinationRule says otherwise.
func (s *Scope) CallsInMeshTLS() bool { return s.snapshot.Mesh.AutoTLS && s.TakesMeshTLS() }
