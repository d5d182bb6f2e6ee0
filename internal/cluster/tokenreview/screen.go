package tokenreview

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxToken is the size of the largest token that is looked at. Those of Kubernetes have 1 to 2
	// KiB.
	maxToken = 16 << 10
	// clockLeeway is how long after its end a token still goes to the API server, whose clock
	// counts.
	clockLeeway = 5 * time.Minute
)

// claims are what a token says of itself (RFC 7519). Nobody has verified it, so it serves only to
// refuse, and to cache for a shorter time.
type claims struct {
	Audience audience `json:"aud"`
	Expires  float64  `json:"exp"`
}

// audience is one string or a list of strings.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// claimsOf returns what a token says, and whether it is a JSON web token, as those of service
// accounts are.
func claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return claims{}, false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &c) != nil {
		return claims{}, false
	}
	return c, true
}

// expires returns when the token expires; zero if it does not say.
func (c claims) expires() time.Time {
	if c.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}

// Screen returns an error that wraps ErrRefused for a token of which the API server need not be
// asked: it is none of a service account, has expired, is for other audiences, or was refused a
// moment ago. No error says nothing. What the API server has accepted is not read again.
func (r *Reviewer) Screen(token string) error {
	if _, known := r.cache.account(hashOf(token)); known {
		return nil
	}
	return r.screen(token)
}

func (r *Reviewer) screen(token string) error {
	c, ok := claimsOf(token)
	switch {
	case !ok:
		return fmt.Errorf("%w: it is no token of a service account", ErrRefused)
	case len(c.Audience) > 0 && !slices.ContainsFunc(c.Audience, r.accepts):
		return fmt.Errorf("%w: it is for the audience %.200q; want one for %s",
			ErrRefused, strings.Join(c.Audience, ", "), strings.Join(r.audiences, " or "))
	case !c.expires().IsZero() && r.now().Sub(c.expires()) > clockLeeway:
		return fmt.Errorf("%w: it has expired at %s", ErrRefused, c.expires().UTC().Format(time.RFC3339))
	case r.cache.isRefused(hashOf(token)):
		return ErrRefused
	}
	return nil
}

func (r *Reviewer) accepts(audience string) bool { return slices.Contains(r.audiences, audience) }
