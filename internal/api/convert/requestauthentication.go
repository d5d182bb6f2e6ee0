package convert

import (
	"net/url"
	"strings"

	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// tokensRefused is what a mistake in a rule about tokens does.
const tokensRefused = "; tokens of this rule are refused"

// requestAuthentication converts a RequestAuthentication. One that is for no workload that Lateen
// serves gives no object.
func (r *reader) requestAuthentication(in *securityv1.RequestAuthentication) []Object {
	spec := &in.Spec
	p := path("spec")
	policy := &model.RequestAuthentication{Meta: r.meta}
	selection, usable := r.selection(p, spec)
	policy.Selection = selection
	for i, rule := range spec.GetJwtRules() {
		at, start := p.dot("jwtRules").at(i), r.mark()
		if rule.GetIssuer() == "" {
			r.fail(
				at.dot("issuer"), "", "is empty; all requests to the workloads that the policy is for are refused",
				"the issuer of the tokens, as their claim iss has it",
			)
			policy.Closed = true
			continue
		}
		read := r.tokenRule(at, rule)
		if r.failure(start, at) != "" {
			read.Keys, read.KeysFrom = "", ""
		}
		read.FetchTimeout = r.duration(at.dot("timeout"), rule.GetTimeout())
		policy.Rules = append(policy.Rules, r.pools.tokens.Canonical(read))
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{policy}
}

func (r *reader) tokenRule(p path, in *security.JWTRule) *model.TokenRule {
	out := &model.TokenRule{
		Issuer:     in.GetIssuer(),
		Audiences:  sorted(r.tokenTexts(p.dot("audiences"), in.GetAudiences())),
		Params:     r.tokenTexts(p.dot("fromParams"), in.GetFromParams()),
		Cookies:    r.tokenTexts(p.dot("fromCookies"), in.GetFromCookies()),
		Forward:    in.GetForwardOriginalToken(),
		ListClaims: sorted(r.tokenTexts(p.dot("spaceDelimitedClaims"), in.GetSpaceDelimitedClaims())),
	}
	for i, header := range in.GetFromHeaders() {
		at := p.dot("fromHeaders").at(i)
		name := r.tokenHeader(at.dot("name"), header.GetName())
		if prefix := header.GetPrefix(); hasControl(prefix) {
			r.fail(at.dot("prefix"), prefix, "has characters that no header has"+tokensRefused, `a text as "Bearer "`)
		} else if name != "" {
			out.Headers = append(out.Headers, model.TokenHeader{Name: name, Prefix: prefix})
		}
	}
	if name := in.GetOutputPayloadToHeader(); name != "" {
		out.PayloadHeader = r.tokenHeader(p.dot("outputPayloadToHeader"), name)
	}
	out.ClaimHeaders = r.claimHeaders(p.dot("outputClaimToHeaders"), in.GetOutputClaimToHeaders())
	r.tokenKeys(p, in, out)
	return out
}

// tokenTexts reads names and audiences. They may have any characters that a token may have.
func (r *reader) tokenTexts(p path, in []string) []string {
	var out []string
	for i, text := range in {
		if text == "" || hasControl(text) {
			r.fail(p.at(i), text, "is empty or has control characters"+tokensRefused, "text")
			continue
		}
		out = append(out, text)
	}
	return out
}

func (r *reader) tokenHeader(p path, name string) string {
	if !isToken(name) {
		r.fail(p, name, "is no name of a header"+tokensRefused, wantHeader)
		return ""
	}
	return strings.ToLower(name)
}

// claimHeaders reads headers for claims. A header whose claim is missing gets none, but is still
// taken from clients.
func (r *reader) claimHeaders(p path, in []*security.ClaimToHeader) []model.ClaimHeader {
	var out []model.ClaimHeader
	seen := map[string]bool{}
	for i, one := range in {
		at := p.at(i)
		name := r.tokenHeader(at.dot("header"), one.GetHeader())
		switch {
		case name == "":
			continue
		case seen[name]:
			r.fail(at.dot("header"), name, "gets another claim already"+tokensRefused, "each header once")
			continue
		}
		seen[name] = true
		claim := one.GetClaim()
		if claim == "" || hasControl(claim) {
			const want = `the name of a claim, or "a.b" for one in another`
			r.fail(at.dot("claim"), claim, "is no claim"+tokensRefused, want)
			claim = "-"
		}
		out = append(out, model.ClaimHeader{Name: name, Claim: claim})
	}
	return out
}

// tokenKeys finds where the keys of a rule are: in the rule, at a URI, or where the issuer says.
func (r *reader) tokenKeys(p path, in *security.JWTRule, out *model.TokenRule) {
	const want = "a set of public keys (RFC 7517): {\"keys\": [...]}"
	inline, uri := in.GetJwks(), in.GetJwksUri()
	switch {
	case inline != "":
		if uri != "" {
			r.warn(p.dot("jwksUri"), uri, "is not used: the keys in jwks count", "jwks or jwksUri")
		}
		keys, err := jwks.Read([]byte(inline))
		if err != nil {
			r.fail(p.dot("jwks"), nil, err.Error()+tokensRefused, want)
			return
		}
		out.Keys = keys
	case uri != "":
		if !isWebAddress(uri) {
			var shown any = uri
			if strings.Contains(uri, "@") {
				shown = nil // it may have a password
			}
			r.fail(p.dot("jwksUri"), shown, "is no address of a set of keys"+tokensRefused, wantWebAddress)
			return
		}
		out.KeysFrom = uri
	case isWebAddress(in.GetIssuer()):
		out.KeysFrom = model.DiscoveryOf(in.GetIssuer())
	default:
		r.fail(p, nil, "has no keys, and its issuer is no address where some are"+tokensRefused, "jwks or jwksUri")
	}
}

const wantWebAddress = `an address that begins with "https://" or "http://", of at most 2048 bytes`

// isWebAddress reports whether a text is a whole URL of HTTP, without credentials in it.
func isWebAddress(text string) bool {
	const maxBytes = 2048
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxBytes && (u.Scheme == "https" || u.Scheme == "http") &&
		u.Hostname() != "" && u.User == nil && u.Opaque == "" && !hasControl(text)
}
