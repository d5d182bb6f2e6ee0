package authz

import (
	"iter"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Input is the policies of a workload: which calls it takes, and which tokens.
type Input struct {
	Policies *model.List[Policy]
	// TrustDomains is that of the mesh, and its aliases.
	TrustDomains *model.List[string]
	// Tokens are the rules about tokens, of all RequestAuthentications.
	Tokens *model.List[Token]
	// ClearsRoutes has requests with a verified token routed by its claims.
	ClearsRoutes bool
	// Closed refuses all requests: a RequestAuthentication cannot be read.
	Closed bool
}

// Token is a rule about tokens, with the keys to verify them with.
type Token struct {
	Rule *model.TokenRule
	// Keys is a set of keys in its canonical form; empty refuses the tokens of the rule.
	Keys string
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

// readsTokens reports whether a rule of the policy has a condition about tokens.
func (p Policy) readsTokens() bool {
	for rule := range p.rules() {
		if anyCondition(rule, model.AuthorizationAttribute.IsToken) {
			return true
		}
	}
	return false
}

// anyCondition reports whether a rule has a condition on an attribute of some kind.
func anyCondition(rule *model.AuthorizationRule, is func(model.AuthorizationAttribute) bool) bool {
	for _, list := range [][]model.AuthorizationConditions{rule.From, rule.To, {rule.When}} {
		for _, conditions := range list {
			for _, c := range conditions {
				if is(c.Attribute) {
					return true
				}
			}
		}
	}
	return false
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
