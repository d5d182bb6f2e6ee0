package compile

import (
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
)

// serverNames returns the names of which the servers of a cluster must have one, if its
// DestinationRule names none. They are the names that the ServiceEntry demands and, in TLS of the
// mesh, the identities of the workloads behind the service, whichever subset or port they serve.
func (b unitBuilder) serverNames(
	s *scope.Scope, svc *model.Service, in cluster.OutboundInput, t *model.ClientTLS,
) *model.List[string] {
	switch {
	case in.Forwarded || t == nil && !in.AutoTLS:
		return nil
	case t != nil && (t.Mode == model.Disable || t.InsecureSkipVerify || len(t.SubjectAltNames) > 0):
		return nil
	case t != nil && t.NeedsCredential() && !in.Secured: // the cluster is closed
		return nil
	case t != nil && t.Mode != model.IstioMutual:
		if svc.Kind == kinds.Service {
			return nil
		}
		return b.identities.List(svc.SubjectAltNames)
	}
	names := slices.Clone(svc.SubjectAltNames)
	for _, account := range s.Accounts(svc) {
		names = append(names, model.IdentityOf(s.Mesh().TrustDomain, svc.Namespace, account))
	}
	return b.identities.List(withAliases(names, s.Mesh().TrustDomainAliases))
}

// withAliases returns names, sorted, and for each identity among them the same identity in other
// trust domains.
func withAliases(names, aliases []string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		domain, ok := strings.CutPrefix(name, model.IdentityScheme)
		_, of, whole := strings.Cut(domain, "/")
		if !ok || !whole {
			continue
		}
		for _, alias := range aliases {
			all = append(all, model.IdentityScheme+alias+"/"+of)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// trustDomains returns the trust domains whose identities may call: that of the mesh and its
// aliases, each once.
func trustDomains(mesh *model.MeshConfig) []string {
	var domains []string
	for _, domain := range append([]string{mesh.TrustDomain}, mesh.TrustDomainAliases...) {
		if !slices.Contains(domains, domain) {
			domains = append(domains, domain)
		}
	}
	return domains
}
