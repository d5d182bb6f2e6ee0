package scope

import (
	"cmp"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Alike is what classes have in common that share compiled units, in a step from one world to the
// next. It is comparable. Methods that depend on a class by nothing else are not recorded.
type Alike struct {
	proxy                ProxyType
	settings             Settings
	closedWas, closedNow bool // to unknown destinations
}

// Outlook is all that recorded questions depend on in a step, but for the ports of workloads. Which
// Sidecar is in force follows from it. It is comparable.
type Outlook struct {
	Alike
	namespace string
	selectors *model.List[model.Labels]
}

// OutlookOf is that of a class whose scopes before and after the step these are.
func OutlookOf(from, to *Scope) Outlook {
	return Outlook{
		Alike:     Alike{to.class.Type, to.class.Settings, from.RegistryOnly(), to.RegistryOnly()},
		namespace: to.class.Namespace, selectors: to.class.Selectors,
	}
}

// Type is the role of the class's proxies.
func (s *Scope) Type() ProxyType { return s.class.Type }

// Settings are those of the class's proxies.
func (s *Scope) Settings() Settings { return s.class.Settings }

// HTTPProxyPort is where sidecars take requests as an HTTP proxy, as the proxy asks or else the
// mesh (proxyHttpPort); 0 for nowhere.
func (s *Scope) HTTPProxyPort() uint16 {
	return cmp.Or(s.class.Settings.HTTPProxyPort, s.world.Mesh.ProxyHTTPPort)
}

// Intercepts tells whether the class's proxies get connections that their workloads opened to
// others.
func (s *Scope) Intercepts() bool { return s.class.Type == Sidecar && s.class.Settings.Intercepted }

// RegistryOnly tells whether traffic to unknown hosts is refused.
func (s *Scope) RegistryOnly() bool {
	if s.sidecar != nil && s.sidecar.Outbound != nil {
		return s.sidecar.Outbound.RegistryOnly
	}
	return s.world.Mesh.Outbound.RegistryOnly
}

// HasMeshTLS tells that mutual TLS is on among workloads that can, and the class's proxies have an
// agent that gives them a certificate for it.
func (s *Scope) HasMeshTLS() bool { return s.world.Mesh.AutoTLS && s.class.Settings.Agent }
