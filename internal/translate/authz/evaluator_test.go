package authz_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/translate/authz"
)

// call is a request, or with http unset a connection of bytes.
type call struct {
	http           bool
	identity       string // "spiffe://…"; empty in plaintext
	source, remote netip.Addr
	port           string
	sni            string
	host, method   string
	path           string
	headers        map[string]string
	destination    netip.Addr
}

// allowed evaluates the filters as Envoy documents RBAC.
func allowed(t require.TestingT, in authz.Input, c call) bool {
	var all []*rbacv3.RBAC
	if c.http {
		for _, f := range authz.HTTP(in) {
			m := &httprbacv3.RBAC{}
			if f.GetTypedConfig().UnmarshalTo(m) == nil {
				all = append(all, m.GetRules())
			}
		}
	} else {
		for _, f := range authz.TCP(in) {
			m := &tcprbacv3.RBAC{}
			if f.GetTypedConfig().UnmarshalTo(m) == nil {
				all = append(all, m.GetRules())
			}
		}
	}
	for _, rules := range all {
		if rules == nil || rules.GetAction() == rbacv3.RBAC_LOG {
			continue
		}
		matches := false
		for _, p := range rules.GetPolicies() {
			matches = matches ||
				slices.ContainsFunc(p.GetPermissions(), func(p *rbacv3.Permission) bool { return c.permits(t, p) }) &&
					slices.ContainsFunc(p.GetPrincipals(), func(p *rbacv3.Principal) bool { return c.is(t, p) })
		}
		if matches != (rules.GetAction() == rbacv3.RBAC_ALLOW) {
			return false
		}
	}
	return true
}

func (c call) permits(t require.TestingT, p *rbacv3.Permission) bool {
	holds := func(p *rbacv3.Permission) bool { return c.permits(t, p) }
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return true
	case *rbacv3.Permission_AndRules:
		return !slices.ContainsFunc(r.AndRules.GetRules(), func(p *rbacv3.Permission) bool { return !holds(p) })
	case *rbacv3.Permission_OrRules:
		return slices.ContainsFunc(r.OrRules.GetRules(), holds)
	case *rbacv3.Permission_NotRule:
		return !holds(r.NotRule)
	case *rbacv3.Permission_Header:
		return c.hasHeader(t, r.Header)
	case *rbacv3.Permission_UrlPath:
		return stringMatches(t, r.UrlPath.GetPath(), c.path)
	case *rbacv3.Permission_UriTemplate:
		m := &templatev3.UriTemplateMatchConfig{}
		if err := r.UriTemplate.GetTypedConfig().UnmarshalTo(m); err != nil {
			failf(t, "%v", err)
		}
		expression := strings.NewReplacer("**", ".*", "*", "[^/]+").Replace(m.GetPathTemplate())
		return regexp.MustCompile("^" + expression + "$").MatchString(c.path)
	case *rbacv3.Permission_DestinationPort:
		return c.port == portText(r.DestinationPort)
	case *rbacv3.Permission_DestinationIp:
		return inRange(r.DestinationIp, c.destination)
	case *rbacv3.Permission_RequestedServerName:
		return stringMatches(t, r.RequestedServerName, c.sni)
	}
	failf(t, "a permission that the test does not know: %v", p)
	return false
}

func (c call) is(t require.TestingT, p *rbacv3.Principal) bool {
	holds := func(p *rbacv3.Principal) bool { return c.is(t, p) }
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return true
	case *rbacv3.Principal_AndIds:
		return !slices.ContainsFunc(r.AndIds.GetIds(), func(p *rbacv3.Principal) bool { return !holds(p) })
	case *rbacv3.Principal_OrIds:
		return slices.ContainsFunc(r.OrIds.GetIds(), holds)
	case *rbacv3.Principal_NotId:
		return !holds(r.NotId)
	case *rbacv3.Principal_Header:
		return c.hasHeader(t, r.Header)
	case *rbacv3.Principal_Authenticated_:
		return c.identity != "" && stringMatches(t, r.Authenticated.GetPrincipalName(), c.identity)
	case *rbacv3.Principal_DirectRemoteIp:
		return inRange(r.DirectRemoteIp, c.source)
	case *rbacv3.Principal_RemoteIp:
		return inRange(r.RemoteIp, c.remote)
	}
	failf(t, "a principal that the test does not know: %v", p)
	return false
}

func (c call) hasHeader(t require.TestingT, h *routev3.HeaderMatcher) bool {
	value, present := c.headers[h.GetName()]
	switch h.GetName() {
	case ":authority":
		value, present = c.host, true
	case ":method":
		value, present = c.method, true
	}
	if h.GetPresentMatch() {
		return present
	}
	return present && stringMatches(t, h.GetStringMatch(), value)
}

func stringMatches(t require.TestingT, m *matcherv3.StringMatcher, value string) bool {
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(p.Exact) == fold(value)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(value), fold(p.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(value), fold(p.Suffix))
	case *matcherv3.StringMatcher_SafeRegex:
		return regexp.MustCompile("^(?:" + p.SafeRegex.GetRegex() + ")$").MatchString(value)
	}
	failf(t, "a matcher that the test does not know: %v", m)
	return false
}

func inRange(r *corev3.CidrRange, a netip.Addr) bool {
	prefix := netip.PrefixFrom(netip.MustParseAddr(r.GetAddressPrefix()), int(r.GetPrefixLen().GetValue()))
	return prefix.Contains(a)
}

func failf(t require.TestingT, format string, arguments ...any) {
	t.Errorf(format, arguments...)
	t.FailNow()
}
