package evaluate

import (
	"fmt"
	"maps"
	"slices"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

// tokens verifies the token of a call by its issuer and audience. It takes the signature for right,
// and the token for one in a place where the filter looks. The payload of a verified token is left
// in the metadata.
func (d *decision) tokens(f *jwtv3.JwtAuthentication) {
	if d.call.Claims == nil {
		return // Lateen never demands a token by this filter
	}
	issuer, _ := d.call.Claims["iss"].(string)
	reason, status := fmt.Sprintf("no provider is for tokens of the issuer %q", issuer), 401
	for _, name := range slices.Sorted(maps.Keys(f.GetProviders())) {
		p := f.GetProviders()[name]
		if p.GetIssuer() != issuer {
			continue
		}
		switch {
		case p.GetLocalJwks().GetInlineString() == jwks.None:
			reason, status = "the provider for the issuer has no keys", 401
		case len(p.GetAudiences()) > 0 && !policy.HasAudience(d.call.Claims["aud"], p.GetAudiences()):
			reason, status = "the token's audience is none of those of the provider", 403
		default:
			lists := p.GetNormalizePayloadInMetadata().GetSpaceDelimitedClaims()
			payload := map[string]any{p.GetPayloadInMetadata(): policy.ListedClaims(d.call.Claims, lists)}
			d.call.metadata["envoy.filters.http.jwt_authn"] = payload
			return
		}
	}
	d.refuse(nil, status, reason)
}
