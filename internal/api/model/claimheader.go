package model

import "strings"

// CutClaimHeader returns what follows Istio's "@request.auth.claims" in the name of a header. A
// match by such a name is by a claim of the request's token. ok is false for other names.
func CutClaimHeader(name string) (rest string, ok bool) {
	const claims = "@request.auth.claims"
	if len(name) <= len(claims) || !strings.EqualFold(name[:len(claims)], claims) {
		return "", false
	}
	return name[len(claims):], true
}
