package state

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// AuthorizationPoliciesFor yields the AuthorizationPolicies of a namespace with a selector, which
// may be empty.
func (s *Snapshot) AuthorizationPoliciesFor(
	namespace string, selector model.Labels,
) iter.Seq[*model.AuthorizationPolicy] {
	return selectingBy(s.authorizationPolicies.by[authorizationPoliciesBySelector], namespace, selector)
}

// RequestAuthenticationsFor yields the RequestAuthentications of a namespace with a selector, which
// may be empty.
func (s *Snapshot) RequestAuthenticationsFor(
	namespace string, selector model.Labels,
) iter.Seq[*model.RequestAuthentication] {
	return selectingBy(s.requestAuthentications.by[requestAuthenticationsBySelector], namespace, selector)
}

// TelemetriesFor yields the Telemetries of a namespace with a selector, which may be empty.
func (s *Snapshot) TelemetriesFor(namespace string, selector model.Labels) iter.Seq[*model.Telemetry] {
	return selectingBy(s.telemetries.by[telemetriesBySelector], namespace, selector)
}

// EnvoyFiltersFor yields the EnvoyFilters of a namespace with a selector, which may be empty.
func (s *Snapshot) EnvoyFiltersFor(namespace string, selector model.Labels) iter.Seq[*model.EnvoyFilter] {
	return selectingBy(s.envoyFilters.by[envoyFiltersBySelector], namespace, selector)
}

// EnvoyFiltersByProxy yields the EnvoyFilters of a namespace with a patch that is for some proxies
// alone.
func (s *Snapshot) EnvoyFiltersByProxy(namespace string) iter.Seq[*model.EnvoyFilter] {
	return s.envoyFilters.by[envoyFiltersByProxy].under(join(namespace))
}

// EnvoyFiltersCalling yields the EnvoyFilters of all namespaces that name a host.
func (s *Snapshot) EnvoyFiltersCalling(host model.Host) iter.Seq[*model.EnvoyFilter] {
	return s.envoyFilters.by[envoyFiltersByCall].under(join(string(host)))
}

// HasEnvoyFilters reports whether there are any.
func (s *Snapshot) HasEnvoyFilters() bool { return s.envoyFilters.by[envoyFiltersBySelector].len() > 0 }

// selectingBy yields what is under a namespace and a selector. Without any objects it makes no key
// to look one up by, because each class asks.
func selectingBy[T any](ix index[*T], namespace string, selector model.Labels) iter.Seq[*T] {
	if ix.len() == 0 {
		return func(func(*T) bool) {}
	}
	return ix.under(join(namespace, selector.String()))
}
