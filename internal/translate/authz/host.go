package authz

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// hostSpellings returns permissions for the ways in which a client can write a host that fits a
// pattern: as it is, with a dot at its end, and with a port. Envoy compares the authority as the
// client sent it, while routes and servers take all of these for the same host.
//
// The alternative is a listener that changes the authority (strip_any_host_port). It is not taken
// because applications make links and redirects of the authority. None of the matchers is a regular
// expression, because Envoy's do not match a value with bytes that are no UTF-8.
func hostSpellings(pattern string) []*rbacv3.Permission {
	name, port, hasPort := cutPort(pattern)
	starts := strings.HasPrefix(name, "*")
	name = strings.TrimSuffix(name, ".")
	switch {
	case pattern == "*" || !hasPort && strings.HasSuffix(name, "*") && !starts:
		return hosts(text(pattern))
	case hasPort:
		return hosts(text(name+":"+port), text(name+".:"+port))
	case starts:
		end := name[1:]
		return hosts(text(name), text(name+"."), contains(end+":"), contains(end+".:"))
	default:
		return hosts(text(name), text(name+"."), text(name+":*"), text(name+".:*"))
	}
}

// cutPort splits a pattern of hosts before its port. Colons of an IPv6 address in brackets are no
// such place.
func cutPort(pattern string) (name, port string, found bool) {
	address := strings.LastIndexByte(pattern, ']') + 1
	name, port, found = strings.Cut(pattern[address:], ":")
	return pattern[:address] + name, port, found
}

func hosts(matchers ...*matcherv3.StringMatcher) []*rbacv3.Permission {
	list := make([]*rbacv3.Permission, 0, len(matchers))
	for _, m := range matchers {
		is := headerIs(":authority", m, true)
		list = append(list, &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: is}})
	}
	return list
}

func contains(part string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: part}}
}
