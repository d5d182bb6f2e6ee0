package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Outcome is what happens to a call.
type Outcome string

// The outcomes.
const (
	Allowed Outcome = "allowed"
	Denied  Outcome = "denied"
	// Asks is the outcome of a call that an external authorizer decides on.
	Asks Outcome = "asks"
)

// Report says what happens to a call, and why.
type Report struct {
	Outcome Outcome `json:"outcome"`
	// Status answers a denied request: 401 or 403. It is 0 where the connection is closed.
	Status int `json:"status,omitempty"`
	// By is what decided; nil where no single object did.
	By     *Cause `json:"by,omitempty"`
	Reason string `json:"reason"`
	// Providers are the external authorizers that are asked.
	Providers []string `json:"providers,omitempty"`
	// NotGiven are attributes that conditions are about and the call does not say. It was taken for
	// one that has none of the values.
	NotGiven []string `json:"notGiven,omitempty"`
	// Notes say what else there is to know.
	Notes    []string       `json:"notes,omitempty"`
	Policies []PolicyResult `json:"policies"`
}

// Cause is an object that decided, and which of its rules.
type Cause struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Rule      *int   `json:"rule,omitempty"`
}

// PolicyResult is what an AuthorizationPolicy makes of a call.
type PolicyResult struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    string `json:"action"`
	DryRun    bool   `json:"dryRun,omitempty"`
	Provider  string `json:"provider,omitempty"` // of CUSTOM
	// NotFor is the selector of a policy that is not for the workload. Then there are no rules.
	NotFor  string       `json:"notFor,omitempty"`
	Matches bool         `json:"matches"`
	Rules   []RuleResult `json:"rules,omitempty"`
}

// RuleResult is what a rule makes of a call.
type RuleResult struct {
	Index   int  `json:"index"`
	Matches bool `json:"matches"`
	// Failed is the first condition that the call does not meet; of several alternatives (from, to)
	// the first of each.
	Failed []Failure `json:"failed,omitempty"`
}

// Failure is a condition that a call does not meet.
type Failure struct {
	Field     string `json:"field,omitempty"` // as "from[0].source.principals"
	Attribute string `json:"attribute"`       // as "source.principal"
	// Want are the values of which the call has none, and Not the one that it must not have.
	Want []string `json:"want,omitempty"`
	Not  []string `json:"not,omitempty"`
	Got  string   `json:"got,omitempty"`
	// Unknown is set if the call does not say what the attribute is.
	Unknown bool `json:"unknown,omitempty"`
	// NeedsRequest is set for an attribute of requests where the call is a connection of bytes.
	NeedsRequest bool `json:"needsRequest,omitempty"`
	// OfFilter is set for a condition of Envoy's, which says all that there is in Want.
	OfFilter bool `json:"ofFilter,omitempty"`
}

// String returns one line for people.
func (f Failure) String() string {
	at := f.Field
	if at == "" {
		at = f.Attribute
	}
	got := fmt.Sprintf("%q", f.Got)
	switch {
	case f.OfFilter:
		return at + ": want " + quoted(f.Want)
	case f.NeedsRequest:
		return at + " is an attribute of requests, and this is a connection of bytes"
	case f.Unknown:
		got = "not given"
	case f.Got == "":
		got = "none"
	}
	if len(f.Not) > 0 {
		return fmt.Sprintf("%s: must not be %s, is %s", at, quoted(f.Not), got)
	}
	return fmt.Sprintf("%s: want %s, is %s", at, quoted(f.Want), got)
}

// mostShown bounds how many values of a condition a line shows.
const mostShown = 5

func quoted(values []string) string {
	var all []string
	for i, v := range values {
		if i == mostShown {
			return strings.Join(all, ", ") + fmt.Sprintf(" or one of %d more", len(values)-i)
		}
		all = append(all, fmt.Sprintf("%q", v))
	}
	return strings.Join(all, " or ")
}

// refuse makes the outcome a refusal.
func (r *Report) refuse(call Call, by *Cause, reason string) {
	r.Outcome, r.By, r.Reason, r.Providers = Denied, by, reason, nil
	if !call.TCP {
		r.Status = 403
	}
}

func resultOf(p *model.AuthorizationPolicy) PolicyResult {
	r := PolicyResult{Namespace: p.Namespace, Name: p.Name, Action: p.Action.String(), DryRun: p.DryRun}
	if p.Provider != nil {
		r.Provider = p.Provider.Name
	}
	return r
}

// nameOf is what users call the attribute of a condition.
func nameOf(k model.AuthorizationCondition) string {
	switch k.Attribute {
	case model.RequestHeader, model.RequestClaim:
		return k.Attribute.String() + "[" + strings.Join(k.Path, "][") + "]"
	case model.FilterMetadata:
		return "experimental." + strings.Join(k.Path, "[") + "]"
	}
	return k.Attribute.String()
}

// fieldOf is where a condition stands in a rule.
func fieldOf(at string, k model.AuthorizationCondition, not bool) string {
	if at == "when" {
		values := "values"
		if not {
			values = "notValues"
		}
		return "when " + nameOf(k) + " " + values
	}
	name := map[model.AuthorizationAttribute]string{
		model.SourcePrincipal: "principals", model.RequestPrincipal: "requestPrincipals",
		model.SourceNamespace: "namespaces", model.SourceServiceAccount: "serviceAccounts",
		model.SourceTrustDomain: "trustDomains", model.SourceIP: "ipBlocks", model.RemoteIP: "remoteIpBlocks",
		model.RequestHost: "hosts", model.RequestMethod: "methods", model.RequestPath: "paths",
		model.DestinationPort: "ports",
	}[k.Attribute]
	if not {
		name = "not" + strings.ToUpper(name[:1]) + name[1:]
	}
	return at + "." + name
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// claimText is a claim for people.
func claimText(v any) string {
	if v == nil {
		return ""
	}
	if list, is := v.([]any); is {
		var all []string
		for _, e := range list {
			all = append(all, fmt.Sprint(e))
		}
		return strings.Join(all, " ")
	}
	return fmt.Sprint(v)
}

// String is the outcome in one line for people.
func (r Report) String() string {
	text := string(r.Outcome)
	switch {
	case r.Outcome == Asks:
		text = "asks " + strings.Join(r.Providers, " and ")
	case r.Outcome == Denied && r.Status != 0:
		text += fmt.Sprintf(" (%d)", r.Status)
	case r.Outcome == Denied:
		text += " (the connection is closed)"
	}
	if r.By != nil && r.Outcome != Asks {
		text += " by " + r.By.Kind + " " + r.By.Namespace + "/" + r.By.Name
	}
	return text + ": " + r.Reason
}
