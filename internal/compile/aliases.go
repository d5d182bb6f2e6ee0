package compile

import "github.com/lateen-mesh/lateen/internal/api/model"

// addDestination adds a host that a route makes visible, and those that it is another name of.
func (m *impact) addDestination(host model.Host) {
	m.addClaimants(host)
	for _, snap := range m.snapshots() {
		if !snap.HasAliases() {
			continue
		}
		for behind := range snap.HostsBehind(host) {
			if behind != host {
				m.addClaimants(behind)
			}
		}
	}
}

// addAliases adds the other names of a host (Services of type ExternalName): calls to them go to
// its service, by its routes.
func (m *impact) addAliases(host model.Host) {
	for _, snap := range m.snapshots() {
		if !snap.HasAliases() {
			continue
		}
		for svc := range snap.AliasesOf(host) {
			if !m.aliases.has(svc.Host) {
				m.aliases = m.aliases.with(svc.Host, m.by)
				m.addClaimants(svc.Host)
			}
		}
	}
}
