package authz

import (
	"iter"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Input is the policies of a workload.
type Input struct {
	Policies *model.List[Policy]
	// TrustDomains is that of the mesh, and its aliases.
	TrustDomains *model.List[string]
}

// Policy is an AuthorizationPolicy without what selects its workloads.
type Policy struct {
	Namespace, Name string
	Action          model.AuthorizationAction
	DryRun          bool
	Provider        *model.ExtAuthz // of AuthorizationCustom
	Rules           *model.AuthorizationRules
}

// name is Istio's name of a rule, which access logs and the metadata of a denied call show.
func (p Policy) name(rule *model.AuthorizationRule) string {
	return "ns[" + p.Namespace + "]-policy[" + p.Name + "]-rule[" + strconv.Itoa(rule.Index) + "]"
}

// rules yields the rules of a policy.
func (p Policy) rules() iter.Seq[*model.AuthorizationRule] {
	return func(yield func(*model.AuthorizationRule) bool) {
		if p.Rules == nil {
			return
		}
		for i := range p.Rules.List {
			if !yield(&p.Rules.List[i]) {
				return
			}
		}
	}
}
