package scope

import "github.com/lateen-mesh/lateen/internal/api/model"

// maxAliases is how many names may stand for one another in a row. A row that leads back to itself
// is longer.
const maxAliases = 8

// Resolved returns the service that a service is another name of, as the class sees it: the service
// itself unless it is of type ExternalName and its name is the host of another one.
func (s *Scope) Resolved(svc *model.Service) *model.Service {
	named := svc
	for range maxAliases {
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
