package state

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// HasAuthorizationPolicies reports whether there are any. A caller that asks first makes no keys to
// look them up by in a mesh without: every class asks for its policies.
func (s *Snapshot) HasAuthorizationPolicies() bool {
	return s.authorizationPolicies.by[authorizationPoliciesByNamespace].len() > 0
}

// HasRequestAuthentications reports whether there are any.
func (s *Snapshot) HasRequestAuthentications() bool {
	return s.requestAuthentications.by[requestAuthenticationsByNamespace].len() > 0
}

// HasTelemetries reports whether there are any.
func (s *Snapshot) HasTelemetries() bool {
	return s.telemetries.by[telemetriesByNamespace].len() > 0
}

// AuthorizationPolicies yields the AuthorizationPolicies of a namespace.
func (s *Snapshot) AuthorizationPolicies(namespace string) iter.Seq[*model.AuthorizationPolicy] {
	return s.authorizationPolicies.by[authorizationPoliciesByNamespace].under(join(namespace))
}

// AllAuthorizationPolicies yields the AuthorizationPolicies of all namespaces.
func (s *Snapshot) AllAuthorizationPolicies() iter.Seq[*model.AuthorizationPolicy] {
	return s.authorizationPolicies.by[authorizationPoliciesByNamespace].under(nil)
}

// PeerAuthentications yields the PeerAuthentications of a namespace.
func (s *Snapshot) PeerAuthentications(namespace string) iter.Seq[*model.PeerAuthentication] {
	return s.peerAuthentications.by[peerAuthenticationsByNamespace].under(join(namespace))
}

// RequestAuthentications yields the RequestAuthentications of a namespace.
func (s *Snapshot) RequestAuthentications(namespace string) iter.Seq[*model.RequestAuthentication] {
	return s.requestAuthentications.by[requestAuthenticationsByNamespace].under(join(namespace))
}

// Telemetries yields the Telemetries of a namespace.
func (s *Snapshot) Telemetries(namespace string) iter.Seq[*model.Telemetry] {
	return s.telemetries.by[telemetriesByNamespace].under(join(namespace))
}

// ProxyConfigs yields the ProxyConfigs of a namespace.
func (s *Snapshot) ProxyConfigs(namespace string) iter.Seq[*model.ProxyConfig] {
	return s.proxyConfigs.by[proxyConfigsByNamespace].under(join(namespace))
}

// TelemetriesTracingTo yields the Telemetries with a rule whose spans go to a host.
func (s *Snapshot) TelemetriesTracingTo(host model.Host) iter.Seq[*model.Telemetry] {
	return s.telemetries.by[telemetriesByTracer].under(join(string(host)))
}

// RequestAuthenticationsWith yields the RequestAuthentications with a rule whose keys are fetched
// from a URI.
func (s *Snapshot) RequestAuthenticationsWith(uri string) iter.Seq[*model.RequestAuthentication] {
	return s.requestAuthentications.by[requestAuthenticationsByKeySet].under(join(uri))
}

// KeySet returns what has been fetched from a URI, nil if nothing has been tried.
func (s *Snapshot) KeySet(uri string) *model.KeySet {
	found, _ := s.keySets.by[keySetsByURI].get(join(uri))
	return found
}
