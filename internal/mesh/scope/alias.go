package scope

import "github.com/lateen-mesh/lateen/internal/api/model"

// Resolved returns the service that a service is another name of, as the class sees it: the service
// itself unless it is of type ExternalName and its name is the host of another one.
func (s *Scope) Resolved(svc *model.Service) *model.Service {
	named := svc
	for range model.MaxAliases {
		if named == nil {
			return svc
		}
		if !named.IsAlias() || named.AliasOf == "" {
			return named
		}
		named = s.Service(named.AliasOf)
	}
	return svc
}
