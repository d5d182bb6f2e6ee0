package model

import (
	"strings"
	"time"
)

// RequestAuthentication says which tokens of requests its workloads accept. It accepts requests
// without a token; an AuthorizationPolicy may refuse them.
type RequestAuthentication struct {
	Meta
	Selection
	// Rules are canonical.
	Rules []*TokenRule
	// Closed refuses all requests: the policy cannot be read, so nobody knows where tokens are.
	Closed bool
}

// KeySets returns where the keys of the rules are fetched from, each once, sorted.
func (a *RequestAuthentication) KeySets() []string {
	var all []string
	for _, r := range a.Rules {
		if r.KeysFrom != "" {
			all = append(all, r.KeysFrom)
		}
	}
	return SortedDistinct(all)
}

// TokenRule says which tokens of an issuer are accepted, and what a request gets of them. It has
// Keys, or KeysFrom, or neither: then a mistake refuses all tokens of the issuer.
type TokenRule struct {
	Issuer string
	// Audiences are those of which a token must have one; empty for any. They are sorted.
	Audiences []string
	// Keys is a set of keys in its canonical form (package jwks).
	Keys string
	// KeysFrom is where the control plane fetches the set, or a document that says where it is
	// (IsDiscovery).
	KeysFrom string
	// FetchTimeout is how long that may take; 0 leaves the control plane's default.
	FetchTimeout time.Duration
	// Headers, Params and Cookies are where tokens are. If all are empty, that is the header
	// "Authorization: Bearer" and the parameter "access_token".
	Headers         []TokenHeader
	Params, Cookies []string
	// Forward leaves a token in the request.
	Forward bool
	// PayloadHeader gets the payload of the token, and ClaimHeaders some of its claims. Whatever
	// clients send in them is dropped.
	PayloadHeader string
	ClaimHeaders  []ClaimHeader
	// ListClaims are claims whose text is a list of words. They are sorted.
	ListClaims []string
}

// TokenHeader is a header with a token behind a prefix.
type TokenHeader struct{ Name, Prefix string }

// ClaimHeader is a header that gets a claim. "a.b" is the claim b within the claim a.
type ClaimHeader struct{ Name, Claim string }

// discoveryPath is where an issuer says where its keys are (OpenID Connect Discovery).
const discoveryPath = "/.well-known/openid-configuration"

// DiscoveryOf returns where an issuer says where its keys are.
func DiscoveryOf(issuer string) string { return strings.TrimSuffix(issuer, "/") + discoveryPath }

// IsDiscovery reports whether a document at a URI says where keys are, and has none itself.
func IsDiscovery(uri string) bool { return strings.HasSuffix(uri, discoveryPath) }
