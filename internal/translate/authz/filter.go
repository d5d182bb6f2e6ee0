package authz

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Names of the filters, which are the namespaces of their dynamic metadata too.
const (
	tcpRBAC     = pb.ConnectionRBACFilter
	tcpExtAuthz = pb.ConnectionExtAuthzFilter
)

// Prefixes of statistics and metadata, as Istio has them.
const (
	tcpPrefix         = "tcp."
	dryRunAllowPrefix = "istio_dry_run_allow_"
	dryRunDenyPrefix  = "istio_dry_run_deny_"
	customPrefix      = "istio_ext_authz_"
)

// HTTP returns the filters of requests, in their order. There are none without policies.
func HTTP(in Input) []*hcmv3.HttpFilter {
	var filters []*hcmv3.HttpFilter
	add := func(name string, config proto.Message) {
		typed := &hcmv3.HttpFilter_TypedConfig{TypedConfig: pb.Any(config)}
		filters = append(filters, &hcmv3.HttpFilter{Name: name, ConfigType: typed})
	}
	if in.Closed {
		add(pb.RBACFilter, pb.DenyAll())
	}
	ask := func(late bool) {
		for _, c := range in.checks(false) {
			if c.late != late {
				continue
			}
			if !c.asksAlways() {
				add(pb.RBACFilter, &httprbacv3.RBAC{ShadowRules: c.rules, ShadowRulesStatPrefix: customPrefix})
			}
			add(pb.ExtAuthzFilter, c.http())
		}
	}
	ask(false)
	if tokens := in.tokens(); tokens != nil {
		add(pb.TokenFilter, tokens)
	}
	ask(true)
	for _, d := range in.decisions(false) {
		add(pb.RBACFilter, &httprbacv3.RBAC{
			Rules: d.enforced, ShadowRules: d.dry, ShadowRulesStatPrefix: d.dryPrefix(),
		})
	}
	return filters
}

// Resource returns the filters of requests as one resource (ECDS), which Envoy replaces at once.
// If policies yield no filter, Resource returns a pass-through filter, so that the listener's ECDS
// reference stays valid.
func Resource(name string, in Input) *corev3.TypedExtensionConfig {
	var list []*corev3.TypedExtensionConfig
	for _, f := range HTTP(in) {
		list = append(list, &corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()})
	}
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: pb.Any(pb.ListOfFilters(list))}
}

// TCP returns the filters of connections that are not HTTP, in their order. Envoy decides when the
// first bytes of the client come.
func TCP(in Input) []*listenerv3.Filter {
	var filters []*listenerv3.Filter
	add := func(name string, config proto.Message) {
		typed := &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(config)}
		filters = append(filters, &listenerv3.Filter{Name: name, ConfigType: typed})
	}
	for _, c := range in.checks(true) {
		if !c.asksAlways() {
			add(tcpRBAC, &tcprbacv3.RBAC{
				ShadowRules: c.rules, ShadowRulesStatPrefix: customPrefix, StatPrefix: tcpPrefix,
			})
		}
		add(tcpExtAuthz, c.tcp())
	}
	for _, d := range in.decisions(true) {
		add(tcpRBAC, &tcprbacv3.RBAC{
			Rules: d.enforced, ShadowRules: d.dry, ShadowRulesStatPrefix: d.dryPrefix(), StatPrefix: tcpPrefix,
		})
	}
	return filters
}

// RefusesConnections reports whether the policies refuse every connection that is not HTTP, whoever
// opens it. Such a connection can be closed before its server says anything, which a filter of
// Envoy does not do.
func RefusesConnections(in Input) bool {
	for _, d := range in.decisions(true) {
		switch d.enforced.GetAction() {
		case rbacv3.RBAC_ALLOW:
			if d.enforced != nil && len(d.enforced.GetPolicies()) == 0 {
				return true
			}
		case rbacv3.RBAC_DENY:
			if matchAll(d.enforced) {
				return true
			}
		}
	}
	return false
}

// matchAll reports whether one of the rules matches every call.
func matchAll(rules *rbacv3.RBAC) bool {
	for _, p := range rules.GetPolicies() {
		if p.GetPermissions()[0].GetAny() && p.GetPrincipals()[0].GetAny() {
			return true
		}
	}
	return false
}

// check asks a provider about calls that match rules.
type check struct {
	provider *model.ExtAuthz
	// late asks after tokens are verified.
	late  bool
	rules *rbacv3.RBAC
}

// asksAlways reports whether the provider is asked about every call. Then no filter in front need
// say whether it is: that costs a tenth of what asking does.
func (c check) asksAlways() bool { return matchAll(c.rules) }

// checks returns what the policies with CUSTOM ask, by the order of their first policies. Policies
// with a condition about tokens ask after these are verified, all others before. Of connections
// that are not HTTP only a provider with gRPC can be asked, and they have no tokens.
func (in Input) checks(tcp bool) []check {
	var list []check
	for p := range in.Policies.All() {
		if p.Action != model.AuthorizationCustom || p.DryRun || !p.canAsk(tcp) {
			continue
		}
		late := !tcp && p.readsTokens()
		i := slices.IndexFunc(list, func(c check) bool { return c.provider == p.Provider && c.late == late })
		if i < 0 {
			i = len(list)
			list = append(list, check{provider: p.Provider, late: late, rules: newRules(rbacv3.RBAC_DENY)})
		}
		translator{tcp: tcp, trustDomains: in.TrustDomains}.add(list[i].rules, p, list[i].prefix(), "")
	}
	return slices.DeleteFunc(list, func(c check) bool { return len(c.rules.GetPolicies()) == 0 })
}

// decision is the rules of policies with one action: those in force, and those of dry runs. Either
// is nil where there is none.
type decision struct{ enforced, dry *rbacv3.RBAC }

func (d decision) dryPrefix() string {
	switch {
	case d.dry == nil || d.dry.GetAction() == rbacv3.RBAC_LOG:
		return ""
	case d.dry.GetAction() == rbacv3.RBAC_ALLOW:
		return dryRunAllowPrefix
	default:
		return dryRunDenyPrefix
	}
}

// decisions returns what the policies mark, refuse and allow, in this order.
func (in Input) decisions(tcp bool) []decision {
	var list []decision
	for _, action := range []rbacv3.RBAC_Action{rbacv3.RBAC_LOG, rbacv3.RBAC_DENY, rbacv3.RBAC_ALLOW} {
		var d decision
		for p := range in.Policies.All() {
			if actionOf(p, tcp) != action {
				continue
			}
			into := &d.enforced
			if p.DryRun {
				into = &d.dry
			}
			if *into == nil {
				*into = newRules(action)
			}
			t := translator{tcp: tcp, allows: action == rbacv3.RBAC_ALLOW, trustDomains: in.TrustDomains}
			t.add(*into, p, "", suffixOf(p))
		}
		if action != rbacv3.RBAC_ALLOW { // without rules, these change nothing
			d.enforced, d.dry = withRules(d.enforced), withRules(d.dry)
		}
		if d.enforced != nil || d.dry != nil {
			list = append(list, d)
		}
	}
	return list
}

// canAsk reports whether a policy's provider can be asked about requests, or about other
// connections.
func (p Policy) canAsk(tcp bool) bool { return p.Provider != nil && (!tcp || p.Provider.GRPC) }

// actionOf returns what Envoy does with calls that match a policy, and -1 for nothing, or if it
// asks a provider. A provider that cannot be asked refuses.
func actionOf(p Policy, tcp bool) rbacv3.RBAC_Action {
	switch p.Action {
	case model.AuthorizationAllow:
		return rbacv3.RBAC_ALLOW
	case model.AuthorizationAudit:
		return rbacv3.RBAC_LOG
	case model.AuthorizationCustom:
		if p.DryRun || p.canAsk(tcp) {
			return -1
		}
	}
	return rbacv3.RBAC_DENY
}

// suffixOf is Istio's mark of rules that refuse because their provider cannot be asked.
func suffixOf(p Policy) string {
	if p.Action == model.AuthorizationCustom {
		return "-deny-due-to-bad-CUSTOM-action"
	}
	return ""
}

func newRules(action rbacv3.RBAC_Action) *rbacv3.RBAC {
	return &rbacv3.RBAC{Action: action, Policies: map[string]*rbacv3.Policy{}}
}

func withRules(r *rbacv3.RBAC) *rbacv3.RBAC {
	if len(r.GetPolicies()) == 0 {
		return nil
	}
	return r
}
