package authz

import (
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// permissionsOf returns permissions for values of a condition: one for each, or more for hosts
// where a match refuses a call.
func permissionsOf(c *model.AuthorizationCondition, values []string, refuses bool) []*rbacv3.Permission {
	list := make([]*rbacv3.Permission, 0, len(values))
	for _, v := range values {
		if refuses && c.Attribute == model.RequestHost {
			list = append(list, hostSpellings(v)...)
			continue
		}
		list = append(list, permissionOf(c, v))
	}
	return list
}

func permissionOf(c *model.AuthorizationCondition, value string) *rbacv3.Permission {
	p := &rbacv3.Permission{}
	switch c.Attribute {
	case model.DestinationIP:
		p.Rule = &rbacv3.Permission_DestinationIp{DestinationIp: cidr(value)}
	case model.DestinationPort:
		port, _ := strconv.ParseUint(value, 10, 16)
		p.Rule = &rbacv3.Permission_DestinationPort{DestinationPort: uint32(port)}
	case model.ConnectionSNI:
		p.Rule = &rbacv3.Permission_RequestedServerName{RequestedServerName: text(value)}
	case model.FilterMetadata:
		//nolint:staticcheck // Envoys before 1.34 do not know what is to replace it
		p.Rule = &rbacv3.Permission_Metadata{Metadata: filterMetadata(c.Path, value)}
	case model.RequestHost:
		p.Rule = &rbacv3.Permission_Header{Header: header(":authority", value, true)}
	case model.RequestMethod:
		p.Rule = &rbacv3.Permission_Header{Header: header(":method", value, true)}
	case model.RequestPath:
		if isTemplate(value) {
			return templatePermission(value)
		}
		path := &matcherv3.PathMatcher{Rule: &matcherv3.PathMatcher_Path{Path: text(value)}}
		p.Rule = &rbacv3.Permission_UrlPath{UrlPath: path}
	}
	return p
}

func isTemplate(path string) bool {
	return strings.Contains(path, "{*}") || strings.Contains(path, "{**}")
}

// templatePermission matches a path by its segments: "{*}" is one of them, and "{**}" any number.
func templatePermission(path string) *rbacv3.Permission {
	pattern := strings.NewReplacer("{*}", "*", "{**}", "**").Replace(path)
	return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
		Name:        "envoy.path.match.uri_template.uri_template_matcher",
		TypedConfig: pb.Any(&templatev3.UriTemplateMatchConfig{PathTemplate: pattern}),
	}}}
}

// principalsOf returns principals for the values of a condition: one for each, or more where a
// trust domain has aliases.
func (t translator) principalsOf(c *model.AuthorizationCondition, values []string) []*rbacv3.Principal {
	switch c.Attribute {
	case model.SourcePrincipal:
		values = withAliases(values, t.trustDomains)
	case model.SourceTrustDomain:
		values = withAliasDomains(values, t.trustDomains)
	case model.RequestAudiences:
		return []*rbacv3.Principal{claim([]string{"aud"}, anyText(values))}
	case model.RequestPresenter:
		return []*rbacv3.Principal{claim([]string{"azp"}, anyText(values))}
	case model.RequestClaim:
		return []*rbacv3.Principal{claim(c.Path, anyText(values))}
	}
	list := make([]*rbacv3.Principal, 0, len(values))
	for _, v := range values {
		list = append(list, principalOf(c, v))
	}
	return list
}

func principalOf(c *model.AuthorizationCondition, value string) *rbacv3.Principal {
	p := &rbacv3.Principal{}
	switch c.Attribute {
	case model.SourceIP:
		p.Identifier = &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: cidr(value)}
	case model.RemoteIP:
		p.Identifier = &rbacv3.Principal_RemoteIp{RemoteIp: cidr(value)}
	case model.SourcePrincipal:
		return authenticated(identity(value))
	case model.SourceNamespace:
		return authenticated(regex("spiffe://.+/ns/" + part(value) + "/.*"))
	case model.SourceServiceAccount:
		namespace, account, _ := strings.Cut(value, "/")
		return authenticated(regex("spiffe://.+/ns/" + part(namespace) + "/(.+/)?sa/" + part(account) + "(/.+)?"))
	case model.SourceTrustDomain:
		return authenticated(regex("spiffe://" + part(value) + "/.*"))
	case model.RequestPrincipal:
		return tokenPrincipal(value)
	case model.RequestHeader:
		p.Identifier = &rbacv3.Principal_Header{Header: header(c.Path[0], value, false)}
	}
	return p
}

func authenticated(name *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
		Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: name},
	}}
}

func cidr(prefix string) *corev3.CidrRange {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return nil // Envoy refuses it
	}
	return &corev3.CidrRange{
		AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits())),
	}
}
