package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Workload is whom a call goes to, with the policies that may be for it.
type Workload struct {
	Namespace string
	Labels    model.Labels
	// Gateway is set for a gateway, whose servers say themselves whether they speak TLS.
	Gateway bool
	// Mesh has the root namespace, whose policies are for the whole mesh, and the trust domains.
	Mesh model.MeshConfig
	// Policies and Tokens are in the total order of their kinds. Those that are not for the
	// workload are among them, to say why.
	Policies []*model.AuthorizationPolicy
	Tokens   []*model.RequestAuthentication
	// MTLS is the mode for the port of the call, by MTLSPolicy, which is nil where nothing sets it.
	MTLS       model.MTLSMode
	MTLSPolicy *model.PeerAuthentication
	// HasKeys reports whether keys were fetched from a URI; nil takes it for granted.
	HasKeys func(uri string) bool
}

// Check says what all policies of a workload do with a call, in the order in which its proxy asks
// them. The path is normalized first, as the mesh configuration says.
func Check(w Workload, call Call) Report {
	var notes []string
	if call.Path != "" && !call.TCP {
		if normal := NormalizePath(call.Path, w.Mesh.PathNormalization); normal != call.Path {
			notes = append(notes, fmt.Sprintf("the path is compared as %q (pathNormalization)", normal))
			call.Path = normal
		}
	}
	if !w.Gateway && w.MTLS == model.MTLSDisable && call.Identity != "" {
		call.Identity = ""
		notes = append(notes, peerName(w.MTLSPolicy)+" says DISABLE, so callers come in plaintext and have no identity")
	}
	call, refusal, note := w.verify(call)
	if note != "" {
		notes = append(notes, note)
	}
	selected, others := w.selected()
	report := Decide(selected, append([]string{w.Mesh.TrustDomain}, w.Mesh.TrustDomainAliases...), call)
	report.Policies = append(report.Policies, others...)
	if refusal.by != nil {
		report.refuse(call, refusal.by, refusal.reason)
		report.Status = refusal.status
	}
	if !w.Gateway && w.MTLS == model.MTLSStrict && call.Identity == "" {
		report.refuse(call, causeOf(&w.MTLSPolicy.Meta), "mode STRICT refuses calls in plaintext")
	}
	report.Notes = notes
	return report
}

func peerName(p *model.PeerAuthentication) string {
	return "PeerAuthentication " + p.Namespace + "/" + p.Name
}

func causeOf(m *model.Meta) *Cause {
	key := m.Key()
	return &Cause{Kind: string(key.Kind), Namespace: key.Namespace, Name: key.Name}
}

// selected returns the policies of the workload: those of the root namespace, then those of its
// own. The others are results that say for whom they are; those of other namespaces are left out.
func (w Workload) selected() (policies []*model.AuthorizationPolicy, others []PolicyResult) {
	for _, namespace := range w.namespaces() {
		for _, p := range w.Policies {
			switch {
			case p.Namespace != namespace:
			case w.IsFor(p.Namespace, &p.Selection):
				policies = append(policies, p)
			default:
				r := resultOf(p)
				r.NotFor = nameOfSelection(&p.Selection)
				others = append(others, r)
			}
		}
	}
	return policies, others
}

// IsFor reports whether a policy of the workload's namespace, or of the root namespace, is for the
// workload.
func (w Workload) IsFor(namespace string, selection *model.Selection) bool {
	return selection.IsFor(namespace == w.Namespace, func(s model.Labels) bool { return s.Selects(w.Labels) })
}

// nameOfSelection is a selector as people write it, or the Gateways that a policy is attached to.
func nameOfSelection(s *model.Selection) string {
	var all []string
	if !s.Selector.IsEmpty() {
		all = append(all, s.Selector.String())
	}
	for _, name := range s.Gateways {
		all = append(all, "Gateway "+name)
	}
	return strings.Join(all, ", ")
}

func (w Workload) namespaces() []string {
	return slices.Compact([]string{w.Mesh.RootNamespace, w.Namespace})
}

// refusal is why a request's token is refused; by is nil if it is not.
type refusal struct {
	by     *Cause
	status int
	reason string
}

// verify does what RequestAuthentications do: it refuses a token that is not valid by one of their
// rules. It takes the signature for right, since the call says claims and not a token. Without a
// rule nobody verifies the token, so policies see no claims of it.
func (w Workload) verify(call Call) (verified Call, no refusal, note string) {
	if call.TCP {
		return call, refusal{}, ""
	}
	rules := 0
	issuer := call.textClaim("iss")
	for _, a := range w.authentications() {
		if a.Closed {
			call.Claims = nil
			return call, refusal{causeOf(&a.Meta), 403, "it cannot be read, so it refuses all requests"}, ""
		}
		rules += len(a.Rules)
	}
	for _, a := range w.authentications() {
		for i, rule := range a.Rules {
			if call.Claims == nil || rule.Issuer != issuer {
				continue
			}
			if reason := w.badToken(rule, call); reason != "" {
				no = w.refusalOf(a, i, reason)
				continue
			}
			call.Claims = ListedClaims(call.Claims, append([]string{"permission", "scope"}, rule.ListClaims...))
			return call, refusal{}, ""
		}
	}
	switch {
	case call.Claims == nil:
		return call, refusal{}, ""
	case rules == 0:
		call.Claims = nil
		return call, refusal{}, "no RequestAuthentication of the workload verifies tokens, so the request has no claims"
	case no.by == nil:
		last := w.authentications()[len(w.authentications())-1]
		no = refusal{causeOf(&last.Meta), 401, fmt.Sprintf("no rule is about tokens of the issuer %q", issuer)}
	}
	call.Claims = nil
	return call, no, ""
}

func (w Workload) refusalOf(a *model.RequestAuthentication, rule int, reason string) refusal {
	by := causeOf(&a.Meta)
	by.Rule = &rule
	status := 401
	if reason == otherAudience {
		status = 403
	}
	return refusal{by, status, reason}
}

// authentications returns the RequestAuthentications of the workload.
func (w Workload) authentications() (all []*model.RequestAuthentication) {
	for _, namespace := range w.namespaces() {
		for _, a := range w.Tokens {
			if a.Namespace == namespace && w.IsFor(namespace, &a.Selection) {
				all = append(all, a)
			}
		}
	}
	return all
}

const otherAudience = "the token's audience (claim aud) is none of those of the rule"

// badToken says why a rule refuses a token of its issuer, or nothing.
func (w Workload) badToken(rule *model.TokenRule, call Call) string {
	switch {
	case rule.Keys == "" && rule.KeysFrom == "":
		return "the rule has a mistake, so it refuses the tokens of its issuer"
	case rule.KeysFrom != "" && w.HasKeys != nil && !w.HasKeys(rule.KeysFrom):
		return "no keys could be fetched from " + rule.KeysFrom
	case len(rule.Audiences) > 0 && !HasAudience(call.Claims["aud"], rule.Audiences):
		return otherAudience
	}
	return ""
}

// HasAudience reports whether the claim aud of a token has one of some audiences.
func HasAudience(claim any, audiences []string) bool {
	return hasText(claim, func(is string) bool {
		return slices.ContainsFunc(audiences, func(a string) bool { return sameAudience(a, is) })
	})
}

// sameAudience compares audiences as Envoy does: without a scheme and without slashes at the end.
func sameAudience(a, b string) bool {
	plain := func(s string) string {
		for _, scheme := range []string{"http://", "https://"} {
			s = strings.TrimPrefix(s, scheme)
		}
		return strings.TrimSuffix(s, "/")
	}
	return plain(a) == plain(b)
}

// ListedClaims returns claims in which those that are lists of words are lists.
func ListedClaims(claims map[string]any, names []string) map[string]any {
	out := maps.Clone(claims)
	for _, name := range names {
		text, is := out[name].(string)
		if !is {
			continue
		}
		var list []any
		for word := range strings.SplitSeq(text, " ") {
			list = append(list, word)
		}
		out[name] = list
	}
	return out
}
