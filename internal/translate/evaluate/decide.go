package evaluate

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcpextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

// Decide says what filters do with a call, in their order. Other filters than those of the package
// decide nothing.
func Decide(filters []proto.Message, call policy.Call) (policy.Report, error) {
	d := &decision{
		call:   subject{Call: call, metadata: map[string]any{}},
		report: policy.Report{Outcome: policy.Allowed, Reason: "no filter refuses the call"},
	}
	for filter, metadata := range call.Metadata {
		d.call.metadata[filter] = metadata
	}
	for _, f := range filters {
		if err := d.filter(f); err != nil {
			return policy.Report{}, err
		}
	}
	if d.refused == nil && len(d.report.Providers) > 0 {
		d.report.Outcome = policy.Asks
		d.report.Reason = "an external authorizer decides, and no other filter refuses the call"
	}
	if d.refused != nil {
		d.report.Outcome, d.report.Providers = policy.Denied, nil
		d.report.By, d.report.Status, d.report.Reason = d.refused.by, d.refused.status, d.refused.reason
	}
	return d.report, nil
}

// decision is what is known while filters are looked at.
type decision struct {
	call    subject
	report  policy.Report
	refused *refusal // by the first filter that does
}

type refusal struct {
	by     *policy.Cause
	status int
	reason string
}

func (d *decision) refuse(by *policy.Cause, status int, reason string) {
	if d.call.TCP {
		status = 0
	}
	if d.refused == nil {
		d.refused = &refusal{by, status, reason}
	}
}

func (d *decision) filter(f proto.Message) error {
	switch f := f.(type) {
	case *httprbacv3.RBAC:
		if f.GetMatcher() != nil || f.GetShadowMatcher() != nil {
			return unknown("a matcher of RBAC", f)
		}
		return d.rbac("envoy.filters.http.rbac", f)
	case *tcprbacv3.RBAC:
		if f.GetMatcher() != nil || f.GetShadowMatcher() != nil {
			return unknown("a matcher of RBAC", f)
		}
		return d.rbac("envoy.filters.network.rbac", f)
	case *jwtv3.JwtAuthentication:
		d.tokens(f)
		return nil
	case *httpextauthzv3.ExtAuthz:
		return d.ask(f)
	case *tcpextauthzv3.ExtAuthz:
		return d.ask(f)
	}
	return nil
}

// rbacFilter is that of requests, or of connections.
type rbacFilter interface {
	GetRules() *rbacv3.RBAC
	GetShadowRules() *rbacv3.RBAC
	GetShadowRulesStatPrefix() string
}

// rbac evaluates a filter. The name of the shadow rule that matched is left in the metadata of the
// filter, as Envoy does.
func (d *decision) rbac(name string, f rbacFilter) error {
	shadow, err := d.rules(f.GetShadowRules(), true)
	if err != nil {
		return err
	}
	if shadow != "" {
		key := f.GetShadowRulesStatPrefix() + "shadow_effective_policy_id"
		d.call.metadata[name] = map[string]any{key: shadow}
	}
	if f.GetRules() == nil {
		return nil
	}
	matched, err := d.rules(f.GetRules(), false)
	if err != nil {
		return err
	}
	switch action := f.GetRules().GetAction(); {
	case action == rbacv3.RBAC_ALLOW && matched == "":
		d.refuse(nil, 403, "there are ALLOW rules, and none of them matches")
	case action == rbacv3.RBAC_DENY && matched != "":
		d.refuse(causeOf(matched), 403, "rule "+matched+" matches")
	case action == rbacv3.RBAC_ALLOW && d.report.By == nil:
		d.report.By, d.report.Reason = causeOf(matched), "rule "+matched+" matches, and no filter refuses the call"
	}
	return nil
}

// rules evaluates the rules of an action, all of them, and returns the name of the first that
// matches. Envoy takes them by name.
func (d *decision) rules(rules *rbacv3.RBAC, shadow bool) (matched string, err error) {
	for _, name := range slices.Sorted(maps.Keys(rules.GetPolicies())) {
		failed, err := d.call.meets(rules.GetPolicies()[name])
		if err != nil {
			return "", err
		}
		if matched == "" && len(failed) == 0 {
			matched = name
		}
		d.add(nameOf(name), rules.GetAction(), shadow, failed)
	}
	return matched, nil
}

// add adds the result of a rule to those of its policy.
func (d *decision) add(of ruleName, action rbacv3.RBAC_Action, shadow bool, failed []policy.Failure) {
	result := policy.PolicyResult{
		Namespace: of.namespace, Name: of.policy, Provider: of.provider,
		Action: map[rbacv3.RBAC_Action]string{rbacv3.RBAC_LOG: "AUDIT"}[action],
	}
	switch {
	case of.provider != "":
		result.Action = "CUSTOM"
	case result.Action == "":
		result.Action = action.String()
	}
	result.DryRun = shadow && of.provider == ""
	at := slices.IndexFunc(d.report.Policies, func(p policy.PolicyResult) bool {
		return p.Namespace == result.Namespace && p.Name == result.Name && p.Action == result.Action
	})
	if at < 0 {
		at = len(d.report.Policies)
		d.report.Policies = append(d.report.Policies, result)
	}
	p := &d.report.Policies[at]
	p.Matches = p.Matches || len(failed) == 0
	p.Rules = append(p.Rules, policy.RuleResult{Index: of.rule, Matches: len(failed) == 0, Failed: failed})
}

// authorizerOf names an authorizer by its cluster: nothing else tells of one that is asked always.
func authorizerOf(f asker) string {
	var cluster string
	switch f := f.(type) {
	case *httpextauthzv3.ExtAuthz:
		cluster = cmp.Or(
			f.GetGrpcService().GetEnvoyGrpc().GetClusterName(), f.GetHttpService().GetServerUri().GetCluster(),
		)
	case *tcpextauthzv3.ExtAuthz:
		cluster = f.GetGrpcService().GetEnvoyGrpc().GetClusterName()
	}
	return cmp.Or(cluster, "an external authorizer")
}

// asker is the filter of an external authorizer, of requests or of connections.
type asker interface {
	proto.Message
	GetFilterEnabledMetadata() *matcherv3.MetadataMatcher
}

// ask adds the provider of a filter that is in force for the call. Its name stands in the condition
// that has it in force.
func (d *decision) ask(f asker) error {
	in := f.GetFilterEnabledMetadata()
	name := authorizerOf(f)
	if in != nil {
		asks, err := d.call.hasMetadata(in)
		if err != nil || !asks {
			return err
		}
		prefix := in.GetValue().GetStringMatch().GetPrefix()
		name = cmp.Or(providerOf(prefix), name)
	}
	if !slices.Contains(d.report.Providers, name) {
		d.report.Providers = append(d.report.Providers, name)
	}
	return nil
}

// ruleName is a name of a rule in its parts. One that is not Istio's is a policy of its own.
type ruleName struct {
	namespace, policy, provider string
	rule                        int
}

// istiosName is the name of a rule. One that asks a provider begins with "istio-ext-authz-NAME-",
// or with "istio-ext-authz+token-NAME-" if it does so after tokens are verified.
var istiosName = regexp.MustCompile(custom + `?ns\[([^]]*)\]-policy\[([^]]*)\]-rule\[(\d+)\]`)

// customPrefix is how the names of all rules begin that ask a provider. Istio leaves out the
// bracket.
var customPrefix = regexp.MustCompile(custom + `(?:ns\[)?$`)

const custom = `^(?:istio-ext-authz(?:-|\+token-)(.+?)-)`

// providerOf returns the name of a provider by how names of rules begin, "" if they do not so.
func providerOf(prefix string) string {
	m := customPrefix.FindStringSubmatch(prefix)
	if m == nil {
		return ""
	}
	return unescaped(m[1])
}

func unescaped(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

func nameOf(name string) ruleName {
	m := istiosName.FindStringSubmatch(name)
	if m == nil {
		return ruleName{policy: name}
	}
	rule, _ := strconv.Atoi(m[4])
	return ruleName{namespace: m[2], policy: m[3], provider: unescaped(m[1]), rule: rule}
}

// causeOf is the policy of a rule.
func causeOf(name string) *policy.Cause {
	of := nameOf(name)
	return &policy.Cause{Kind: "AuthorizationPolicy", Namespace: of.namespace, Name: of.policy, Rule: &of.rule}
}
