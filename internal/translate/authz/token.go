package authz

import (
	"cmp"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// tokens returns the filter that verifies tokens, nil without rules about any.
//
// A token in a place that a rule names has to be valid, wherever else a valid one is: places that
// no two rules share are verified one by one. In a place of several rules it has to be valid by one
// of them. A request without a token is accepted.
func (in Input) tokens() *jwtv3.JwtAuthentication {
	rules := slices.SortedStableFunc(in.Tokens.All(), func(a, b Token) int {
		return cmp.Compare(a.Rule.Issuer, b.Rule.Issuer)
	})
	if len(rules) == 0 {
		return nil
	}
	config := &jwtv3.JwtAuthentication{
		Providers: map[string]*jwtv3.JwtProvider{}, BypassCorsPreflight: true,
	}
	for i, t := range rules {
		config.Providers[providerName(i)] = t.provider(in.ClearsRoutes)
	}
	var all []*jwtv3.JwtRequirement
	for _, group := range sharingPlaces(rules) {
		all = append(all, oneOrNone(group))
	}
	requires := all[0]
	if len(all) > 1 {
		requires = &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{
			RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: all},
		}}
	}
	config.Rules = []*jwtv3.RequirementRule{{
		Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		RequirementType: &jwtv3.RequirementRule_Requires{Requires: requires},
	}}
	return config
}

func providerName(i int) string { return "origins-" + strconv.Itoa(i) }

// oneOrNone requires a token that is valid by one of some rules, or none.
func oneOrNone(rules []int) *jwtv3.JwtRequirement {
	var any []*jwtv3.JwtRequirement
	for _, i := range rules {
		any = append(any, &jwtv3.JwtRequirement{
			RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: providerName(i)},
		})
	}
	any = append(any, &jwtv3.JwtRequirement{
		RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}},
	})
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{
		RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: any},
	}}
}

// provider is a rule as Envoy has it. Istio's names of claims that are lists of words are always
// among those of the rule.
func (t Token) provider(clearsRoutes bool) *jwtv3.JwtProvider {
	r := t.Rule
	p := &jwtv3.JwtProvider{
		Issuer:               r.Issuer,
		Audiences:            r.Audiences,
		JwksSourceSpecifier:  &jwtv3.JwtProvider_LocalJwks{LocalJwks: inline(cmp.Or(t.Keys, jwks.None))},
		Forward:              r.Forward,
		FromParams:           r.Params,
		FromCookies:          r.Cookies,
		ForwardPayloadHeader: r.PayloadHeader,
		PayloadInMetadata:    pb.TokenPayload,
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{
			SpaceDelimitedClaims: model.SortedDistinct(append([]string{"permission", "scope"}, r.ListClaims...)),
		},
		ClearRouteCache: clearsRoutes,
	}
	for _, h := range r.Headers {
		p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: h.Name, ValuePrefix: h.Prefix})
	}
	for _, h := range r.ClaimHeaders {
		p.ClaimToHeaders = append(p.ClaimToHeaders, &jwtv3.JwtClaimToHeader{HeaderName: h.Name, ClaimName: h.Claim})
	}
	return p
}

func inline(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

// place is where a token may be.
type place struct {
	kind byte // header, param or cookie
	name string
}

// places returns where tokens of a rule are. Prefixes of headers do not count: two rules for one
// header share it.
func (t Token) places() []place {
	var all []place
	for _, h := range t.Rule.Headers {
		all = append(all, place{'h', h.Name})
	}
	for _, p := range t.Rule.Params {
		all = append(all, place{'p', p})
	}
	for _, c := range t.Rule.Cookies {
		all = append(all, place{'c', c})
	}
	if len(all) == 0 {
		all = []place{{'h', "authorization"}, {'p', "access_token"}}
	}
	return all
}

// sharingPlaces groups rules, by their numbers: rules with a place in common are in one group.
func sharingPlaces(rules []Token) [][]int {
	group := make([]int, len(rules)) // the first rule of each rule's group
	first := map[place]int{}
	for i, t := range rules {
		group[i] = i
		for _, p := range t.places() {
			j, known := first[p]
			if !known {
				first[p] = i
				continue
			}
			was, is := max(group[i], group[j]), min(group[i], group[j])
			for k := range group[:i+1] {
				if group[k] == was {
					group[k] = is
				}
			}
		}
	}
	var out [][]int
	at := map[int]int{}
	for i, g := range group {
		if _, known := at[g]; !known {
			at[g] = len(out)
			out = append(out, nil)
		}
		out[at[g]] = append(out[at[g]], i)
	}
	return out
}
