package policy

import (
	"net/netip"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Call is a request, or a connection of bytes, as the proxy of the called workload sees it.
type Call struct {
	// TCP is set for a connection of bytes, which has no attributes of requests.
	TCP bool `json:"tcp,omitempty"`
	// Identity is that of the caller's certificate, "spiffe://domain/ns/shop/sa/web"; empty in
	// plaintext.
	Identity string `json:"identity,omitempty"`
	// Source is where the connection comes from, Remote the client as trusted proxies report it,
	// and Destination the workload's own address. An invalid one is not known.
	Source      netip.Addr `json:"source"`
	Remote      netip.Addr `json:"remote"`
	Destination netip.Addr `json:"destination"`
	// Port is that of the workload; 0 is not known.
	Port uint16 `json:"port,omitempty"`
	SNI  string `json:"sni,omitempty"`
	Host string `json:"host,omitempty"` // with the port, if the client sends one
	// Path has no query.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Headers are by name, in lower case.
	Headers map[string]string `json:"headers,omitempty"`
	// Claims are those of the request's token, as JSON has them; nil without a token.
	Claims map[string]any `json:"claims,omitempty"`
	// Metadata is what filters of Envoy left: texts, or lists of texts, by filter and key.
	Metadata map[string]map[string]any `json:"metadata,omitempty"`
}

// caller is an identity in its parts. They are empty in plaintext.
type caller struct{ whole, domain, namespace, account string }

// callerOf reads "spiffe://domain/ns/shop/sa/web".
func callerOf(identity string) caller {
	c := caller{whole: strings.TrimPrefix(identity, model.IdentityScheme)}
	parts := strings.Split(c.whole, "/")
	if c.domain = parts[0]; len(parts) >= 5 && parts[1] == "ns" && parts[3] == "sa" {
		c.namespace, c.account = parts[2], parts[4]
	}
	return c
}

// value is what a call has of an attribute, for people. It is false for what the call does not say.
func (c Call) value(k model.AuthorizationCondition) (text string, known bool) {
	from := callerOf(c.Identity)
	switch k.Attribute {
	case model.SourcePrincipal:
		return from.whole, true
	case model.SourceNamespace:
		return from.namespace, true
	case model.SourceServiceAccount:
		if from.account == "" {
			return "", true
		}
		return from.namespace + "/" + from.account, true
	case model.SourceTrustDomain:
		return from.domain, true
	case model.SourceIP:
		return addressText(c.Source), c.Source.IsValid()
	case model.RemoteIP:
		return addressText(c.Remote), c.Remote.IsValid()
	case model.DestinationIP:
		return addressText(c.Destination), c.Destination.IsValid()
	case model.DestinationPort:
		return portText(c.Port), c.Port != 0
	case model.ConnectionSNI:
		return c.SNI, c.SNI != ""
	case model.FilterMetadata:
		v := c.Metadata[k.Path[0]][k.Path[1]]
		return claimText(v), v != nil
	case model.RequestHost:
		return c.Host, c.Host != ""
	case model.RequestMethod:
		return c.Method, c.Method != ""
	case model.RequestPath:
		return c.Path, c.Path != ""
	case model.RequestHeader:
		v, set := c.Header(k.Path[0])
		return v, set || !strings.HasPrefix(k.Path[0], ":")
	default:
		return claimText(c.claim(k)), true
	}
}

// Header returns a header by its name in lower case. Those of HTTP/2 that begin with a colon are
// parts of the request.
func (c Call) Header(name string) (value string, set bool) {
	switch name {
	case ":authority":
		return c.Host, c.Host != ""
	case ":method":
		return c.Method, c.Method != ""
	case ":path":
		return c.Path, c.Path != ""
	}
	value, set = c.Headers[name]
	return value, set
}

// claim returns the claim of the token that a condition is about, nil if there is none.
func (c Call) claim(k model.AuthorizationCondition) any {
	path := k.Path
	switch k.Attribute {
	case model.RequestPrincipal:
		issuer, subject := c.textClaim("iss"), c.textClaim("sub")
		if issuer == "" && subject == "" {
			return nil
		}
		return issuer + "/" + subject
	case model.RequestAudiences:
		path = []string{"aud"}
	case model.RequestPresenter:
		path = []string{"azp"}
	}
	var v any = c.Claims
	for _, name := range path {
		within, _ := v.(map[string]any)
		v = within[name]
	}
	return v
}

func (c Call) textClaim(name string) string {
	text, _ := c.Claims[name].(string)
	return text
}
