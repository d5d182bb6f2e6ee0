package differences

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	securityv1 "istio.io/client-go/pkg/apis/security/v1"
)

// privateKeys are the places from which keys of token issuers would have to be fetched, and that
// are within the cluster or a private network.
func privateKeys(r *securityv1.RequestAuthentication) (found []Field) {
	for i, rule := range r.Spec.GetJwtRules() {
		path, place := "jwksUri", rule.GetJwksUri()
		if place == "" {
			path, place = "issuer", rule.GetIssuer()
		}
		uri, err := url.Parse(place)
		if rule.GetJwks() == "" && err == nil && uri.Host != "" && isPrivate(uri.Hostname()) {
			found = append(found, Field{fmt.Sprintf("spec.jwtRules[%d].%s", i, path), place})
		}
	}
	return found
}

// isPrivate reports whether a host is none of the internet: a private address, or a name that only
// a cluster or a local network knows. What a name resolves to is not looked at.
func isPrivate(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsPrivate() || !address.IsGlobalUnicast()
	}
	name := "." + strings.ToLower(strings.TrimSuffix(host, "."))
	for _, end := range []string{".svc", ".local", ".internal", ".localhost"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.Count(name, ".") == 1
}
