package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
)

// Credential is what a Secret holds for TLS: a certificate with its key, authorities to verify
// others with, or both. Only proxies of its own namespace may get it. Unusable parts are left out.
type Credential struct {
	Meta
	Pair        *KeyPair     // nil: none
	Authorities *Authorities // nil: none
	// BadPair and BadAuthorities are set if the Secret has such a part and it is unusable. Proxies
	// that have an earlier one keep it.
	BadPair, BadAuthorities bool
}

// Holding says whether a Secret has a part that is needed.
type Holding uint8

// The states, the worst first.
const (
	// Missing: there is no Secret of the name, or it has no such part.
	Missing Holding = iota
	// Bad: the part is unusable. Proxies do not get it, and keep an earlier one.
	Bad
	// Good: the part is usable.
	Good
)

// HoldsPair returns the state of the certificate and its key. A nil Credential has none.
func (c *Credential) HoldsPair() Holding {
	switch {
	case c == nil || c.Pair == nil && !c.BadPair:
		return Missing
	case c.Pair == nil:
		return Bad
	}
	return Good
}

// HoldsAuthorities returns the state of the authorities. A nil Credential has none.
func (c *Credential) HoldsAuthorities() Holding {
	switch {
	case c == nil || c.Authorities == nil && !c.BadAuthorities:
		return Missing
	case c.Authorities == nil:
		return Bad
	}
	return Good
}

// KeyPair is a certificate chain and its private key, in PEM. It was verified: the key belongs to
// the certificate, and Envoy accepts its kind.
type KeyPair struct {
	Chain, Key Sensitive
}

// Authorities are CA certificates in PEM, and revocation lists if there are any.
type Authorities struct {
	Certificates, Revoked Sensitive
}

// Sensitive is text that is never shown. Whatever prints, logs or encodes it shows a short hash
// instead, so that two values can be told apart. Only Text returns it.
type Sensitive struct{ text string }

// NewSensitive makes text Sensitive.
func NewSensitive(text string) Sensitive { return Sensitive{text} }

// Text returns the text. It is for the resource that goes to the proxy, and for nothing else.
func (s Sensitive) Text() string { return s.text }

// IsEmpty reports whether the text is empty.
func (s Sensitive) IsEmpty() bool { return s.text == "" }

// String returns a hash of the text.
func (s Sensitive) String() string {
	if s.text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(s.text))
	return "hidden:" + hex.EncodeToString(sum[:4])
}

// Format implements fmt.Formatter, so that no verb shows the text.
func (s Sensitive) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText implements encoding.TextMarshaler, and with it JSON.
func (s Sensitive) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes the text itself, not what MarshalText
// shows.
func (s *Sensitive) UnmarshalText(text []byte) error {
	s.text = string(text)
	return nil
}

// LogValue implements slog.LogValuer.
func (s Sensitive) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Names of secrets on the wire (SDS), as Istio's.
const (
	secretScheme = "kubernetes://"
	caSuffix     = "-cacert"
)

// SecretName returns the name of the resource with a credential's certificate.
func SecretName(credential string) string { return secretScheme + credential }

// AuthoritiesName returns the name of the resource with a credential's authorities.
func AuthoritiesName(credential string) string { return secretScheme + credential + caSuffix }

// WantCredential describes a valid Secret for a credential, for messages.
const WantCredential = "a Secret of type kubernetes.io/tls, or one with the keys cert, key and cacert"

// WantGatewayPod describes a gateway that may have Secrets, for messages.
const WantGatewayPod = "a Pod with the annotation inject.istio.io/templates: gateway or the arguments [proxy, " +
	"router] of its container istio-proxy, a service account that may list secrets in its namespace, and a " +
	"token of that Pod"

// AuthoritiesOf returns the name of the Secret with the authorities of a credential, used if its
// own Secret has none.
func AuthoritiesOf(credential string) string { return credential + caSuffix }

// CredentialsOf returns the credentials that a Secret belongs to: the one of its name, and the one
// whose authorities it holds.
func CredentialsOf(secret string) []string {
	if of, ok := strings.CutSuffix(secret, caSuffix); ok && of != "" {
		return []string{secret, of}
	}
	return []string{secret}
}

// QualifiedCredential returns the name of a credential in the TLS of a Gateway: that of the Secret,
// with its namespace if it is another one than the workloads'.
func QualifiedCredential(own string, secret ObjectName) string {
	if secret.Namespace == own {
		return secret.Name
	}
	return secret.Namespace + "/" + secret.Name
}
