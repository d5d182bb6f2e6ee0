package evaluate

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

// subject is a call, and what filters have left in its metadata, by filter and key.
type subject struct {
	policy.Call
	metadata map[string]any
}

// unknown is the error of a part of a configuration that nothing here can evaluate.
func unknown(what string, m proto.Message) error {
	return fmt.Errorf("%s is not known: %s", what, textOf(m))
}

func textOf(m proto.Message) string {
	body, err := protojson.Marshal(m)
	if err != nil {
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	return strings.ReplaceAll(string(body), `": `, `":`) // protojson varies white space
}

// meets returns nothing if the call matches a rule: one of its permissions, and one of its
// principals. Otherwise it returns the first condition of each of either that fails.
func (s subject) meets(p *rbacv3.Policy) ([]policy.Failure, error) {
	if p.GetCondition() != nil || p.GetCheckedCondition() != nil {
		return nil, unknown("a condition of RBAC", p)
	}
	failed, err := oneOf(p.GetPrincipals(), "principals", s.is)
	if err != nil || failed != nil {
		return failed, err
	}
	return oneOf(p.GetPermissions(), "permissions", s.permits)
}

// verdict is the condition that fails; nil if none does.
type verdict proto.Message

// oneOf returns nothing if one of several conditions holds, otherwise what fails of each.
func oneOf[T proto.Message](list []T, field string, holds func(T) (verdict, error)) ([]policy.Failure, error) {
	failed := []policy.Failure{}
	for i, one := range list {
		v, err := holds(one)
		if err != nil {
			return nil, err
		}
		if v == nil {
			return nil, nil
		}
		failed = append(failed, policy.Failure{
			Field: fmt.Sprintf("%s[%d]", field, i), Attribute: field, Want: []string{textOf(v)}, OfFilter: true,
		})
	}
	return failed, nil
}

// permits returns what fails of a permission.
func (s subject) permits(p *rbacv3.Permission) (verdict, error) {
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return nil, nil
	case *rbacv3.Permission_AndRules:
		return allOf(r.AndRules.GetRules(), s.permits)
	case *rbacv3.Permission_OrRules:
		return anyOf(p, r.OrRules.GetRules(), s.permits)
	case *rbacv3.Permission_NotRule:
		return noneOf(p, r.NotRule, s.permits)
	case *rbacv3.Permission_Header:
		return s.leaf(p, func() (bool, error) { return s.hasHeader(r.Header) })
	case *rbacv3.Permission_UrlPath:
		return s.leaf(p, func() (bool, error) { return matches(r.UrlPath.GetPath(), s.Path) })
	case *rbacv3.Permission_UriTemplate:
		return s.leaf(p, func() (bool, error) { return s.fitsTemplate(r.UriTemplate) })
	case *rbacv3.Permission_DestinationPort:
		return s.leaf(p, func() (bool, error) { return r.DestinationPort == uint32(s.Port), nil })
	case *rbacv3.Permission_DestinationIp:
		return s.leaf(p, func() (bool, error) { return inRange(r.DestinationIp, s.Destination), nil })
	case *rbacv3.Permission_RequestedServerName:
		return s.leaf(p, func() (bool, error) { return matches(r.RequestedServerName, s.SNI) })
	case *rbacv3.Permission_Metadata:
		//nolint:staticcheck // Lateen has it, for Envoys before 1.34
		return s.leaf(p, func() (bool, error) { return s.hasMetadata(r.Metadata) })
	}
	return nil, unknown("a permission", p)
}

// is returns what fails of a principal.
func (s subject) is(p *rbacv3.Principal) (verdict, error) {
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return nil, nil
	case *rbacv3.Principal_AndIds:
		return allOf(r.AndIds.GetIds(), s.is)
	case *rbacv3.Principal_OrIds:
		return anyOf(p, r.OrIds.GetIds(), s.is)
	case *rbacv3.Principal_NotId:
		return noneOf(p, r.NotId, s.is)
	case *rbacv3.Principal_Header:
		return s.leaf(p, func() (bool, error) { return s.hasHeader(r.Header) })
	case *rbacv3.Principal_Authenticated_:
		return s.leaf(p, func() (bool, error) { return s.isAuthenticated(r.Authenticated) })
	case *rbacv3.Principal_DirectRemoteIp:
		return s.leaf(p, func() (bool, error) { return inRange(r.DirectRemoteIp, s.Source), nil })
	case *rbacv3.Principal_RemoteIp:
		return s.leaf(p, func() (bool, error) { return inRange(r.RemoteIp, s.Remote), nil })
	case *rbacv3.Principal_Metadata:
		//nolint:staticcheck // Lateen has it, for Envoys before 1.34
		return s.leaf(p, func() (bool, error) { return s.hasMetadata(r.Metadata) })
	}
	return nil, unknown("a principal", p)
}

// leaf evaluates a condition without parts.
func (s subject) leaf(p verdict, holds func() (bool, error)) (verdict, error) {
	if ok, err := holds(); err != nil || ok {
		return nil, err
	}
	return p, nil
}

// allOf returns the first that fails.
func allOf[T proto.Message](list []T, holds func(T) (verdict, error)) (verdict, error) {
	for _, one := range list {
		if v, err := holds(one); err != nil || v != nil {
			return v, err
		}
	}
	return nil, nil
}

// anyOf returns the whole if all fail.
func anyOf[T proto.Message](whole verdict, list []T, holds func(T) (verdict, error)) (verdict, error) {
	for _, one := range list {
		if v, err := holds(one); err != nil || v == nil {
			return nil, err
		}
	}
	return whole, nil
}

// noneOf returns the whole if the part holds.
func noneOf[T proto.Message](whole verdict, part T, holds func(T) (verdict, error)) (verdict, error) {
	v, err := holds(part)
	if err != nil || v != nil {
		return nil, err
	}
	return whole, nil
}

func (s subject) isAuthenticated(a *rbacv3.Principal_Authenticated) (bool, error) {
	if s.Identity == "" {
		return false, nil
	}
	if a.GetPrincipalName() == nil {
		return true, nil
	}
	return matches(a.GetPrincipalName(), s.Identity)
}

func (s subject) fitsTemplate(t *corev3.TypedExtensionConfig) (bool, error) {
	m := &templatev3.UriTemplateMatchConfig{}
	if err := t.GetTypedConfig().UnmarshalTo(m); err != nil {
		return false, unknown("a template", t)
	}
	parts := strings.SplitAfter(m.GetPathTemplate(), "/")
	for i, p := range parts {
		slash := strings.HasSuffix(p, "/")
		switch strings.TrimSuffix(p, "/") {
		case "**":
			p = ".*"
		case "*":
			p = "[^/]+"
		default:
			p, slash = regexp.QuoteMeta(p), false
		}
		if parts[i] = p; slash {
			parts[i] += "/"
		}
	}
	whole, err := regexp.Compile("^" + strings.Join(parts, "") + "$")
	return err == nil && whole.MatchString(s.Path), err
}

func (s subject) hasHeader(h *routev3.HeaderMatcher) (bool, error) {
	value, present := s.Header(strings.ToLower(h.GetName()))
	holds, err := false, error(nil)
	switch m := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PresentMatch:
		holds = present == m.PresentMatch
	case *routev3.HeaderMatcher_StringMatch:
		holds, err = matches(m.StringMatch, value)
		holds = holds && present
	default:
		return false, unknown("a condition on a header", h)
	}
	return holds != h.GetInvertMatch(), err
}

// hasMetadata matches what filters left, by the names of nested values.
func (s subject) hasMetadata(m *matcherv3.MetadataMatcher) (bool, error) {
	v := s.metadata[m.GetFilter()]
	for _, segment := range m.GetPath() {
		within, _ := v.(map[string]any)
		v = within[segment.GetKey()]
	}
	holds, err := hasValue(m.GetValue(), v)
	return holds != m.GetInvert(), err
}

func hasValue(m *matcherv3.ValueMatcher, v any) (bool, error) {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		text, is := v.(string)
		if !is {
			return false, nil
		}
		return matches(p.StringMatch, text)
	case *matcherv3.ValueMatcher_ListMatch:
		list, _ := v.([]any)
		for _, e := range list {
			if ok, err := hasValue(p.ListMatch.GetOneOf(), e); err != nil || ok {
				return ok, err
			}
		}
		return false, nil
	case *matcherv3.ValueMatcher_OrMatch:
		for _, one := range p.OrMatch.GetValueMatchers() {
			if ok, err := hasValue(one, v); err != nil || ok {
				return ok, err
			}
		}
		return false, nil
	}
	return false, unknown("a condition on metadata", m)
}

func matches(m *matcherv3.StringMatcher, value string) (bool, error) {
	fold := func(s string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return fold(p.Exact) == fold(value), nil
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(fold(value), fold(p.Prefix)), nil
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(fold(value), fold(p.Suffix)), nil
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(fold(value), fold(p.Contains)), nil
	case *matcherv3.StringMatcher_SafeRegex:
		whole, err := regexp.Compile("^(?:" + p.SafeRegex.GetRegex() + ")$")
		return err == nil && whole.MatchString(value), err
	}
	return false, unknown("a condition on a text", m)
}

func inRange(r *corev3.CidrRange, a netip.Addr) bool {
	address, err := netip.ParseAddr(r.GetAddressPrefix())
	return err == nil && netip.PrefixFrom(address, int(r.GetPrefixLen().GetValue())).Contains(a.Unmap())
}
