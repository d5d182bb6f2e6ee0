package authz

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// translator translates rules of policies with one action.
type translator struct {
	// tcp is set for connections that are not HTTP.
	tcp bool
	// allows is set for ALLOW policies. A condition that cannot be evaluated makes their rules
	// match nothing, and the rules of all others match more.
	allows       bool
	trustDomains *model.List[string]
}

// add adds the rules of a policy, with something before and after their names.
func (t translator) add(to *rbacv3.RBAC, p Policy, prefix, suffix string) {
	for rule := range p.rules() {
		if t.matchesNothing(rule) {
			continue
		}
		to.Policies[prefix+p.name(rule)+suffix] = t.rule(rule)
	}
}

// matchesNothing reports whether a rule of an ALLOW policy has a condition about requests, which no
// other connection meets. As in Istio one such condition is enough, even if only one of several
// alternatives has it.
func (t translator) matchesNothing(rule *model.AuthorizationRule) bool {
	return t.tcp && t.allows && anyCondition(rule, model.AuthorizationAttribute.IsHTTP)
}

func (t translator) rule(rule *model.AuthorizationRule) *rbacv3.Policy {
	p := &rbacv3.Policy{}
	for _, to := range orAny(rule.To) {
		p.Permissions = append(p.Permissions, allOfPermissions(t.permissions(to, rule.When)))
	}
	for _, from := range orAny(rule.From) {
		p.Principals = append(p.Principals, allOfPrincipals(t.principals(from, rule.When)))
	}
	return p
}

// orAny returns alternatives, or one without conditions if there are none.
func orAny(list []model.AuthorizationConditions) []model.AuthorizationConditions {
	if len(list) == 0 {
		return []model.AuthorizationConditions{nil}
	}
	return list
}

// permissions translates the conditions on what is called.
func (t translator) permissions(lists ...model.AuthorizationConditions) []*rbacv3.Permission {
	var all []*rbacv3.Permission
	for _, conditions := range lists {
		for i := range conditions {
			c := &conditions[i]
			if !isOfCall(c.Attribute) || t.tcp && c.Attribute.IsHTTP() {
				continue
			}
			if len(c.Values) > 0 {
				all = append(all, anyOfPermissions(permissionsOf(c, c.Values, !t.allows)))
			}
			if len(c.NotValues) > 0 {
				not := anyOfPermissions(permissionsOf(c, c.NotValues, t.allows))
				all = append(all, &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: not}})
			}
		}
	}
	return all
}

// principals translates the conditions on who calls, with what.
func (t translator) principals(lists ...model.AuthorizationConditions) []*rbacv3.Principal {
	var all []*rbacv3.Principal
	for _, conditions := range lists {
		for i := range conditions {
			c := &conditions[i]
			if isOfCall(c.Attribute) || t.tcp && c.Attribute.IsHTTP() {
				continue
			}
			if len(c.Values) > 0 {
				all = append(all, anyOfPrincipals(t.principalsOf(c, c.Values)))
			}
			if len(c.NotValues) > 0 {
				not := anyOfPrincipals(t.principalsOf(c, c.NotValues))
				all = append(all, &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: not}})
			}
		}
	}
	return all
}

// isOfCall reports whether an attribute is one of what is called, not of who calls.
func isOfCall(a model.AuthorizationAttribute) bool {
	switch a {
	case model.DestinationIP, model.DestinationPort, model.ConnectionSNI, model.FilterMetadata,
		model.RequestHost, model.RequestMethod, model.RequestPath:
		return true
	}
	return false
}

func allOfPermissions(list []*rbacv3.Permission) *rbacv3.Permission {
	switch len(list) {
	case 0:
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}}
	case 1:
		return list[0]
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: list}}}
}

func anyOfPermissions(list []*rbacv3.Permission) *rbacv3.Permission {
	if len(list) == 1 {
		return list[0]
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: list}}}
}

func allOfPrincipals(list []*rbacv3.Principal) *rbacv3.Principal {
	switch len(list) {
	case 0:
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
	case 1:
		return list[0]
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: list}}}
}

func anyOfPrincipals(list []*rbacv3.Principal) *rbacv3.Principal {
	if len(list) == 1 {
		return list[0]
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: list}}}
}
