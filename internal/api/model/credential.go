package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
)

// Credential is what a Secret holds for TLS: a certificate with its key, authorities to check others by, or both. It is for
// the proxies of its own namespace alone. A part that cannot be used is left out.
type Credential struct {
	Meta
	Pair        *KeyPair     // nil: none
	Authorities *Authorities // nil: none
	// BadPair and BadAuthorities tell that the Secret means to hold one, and it cannot be used: who has one keeps it.
	BadPair, BadAuthorities bool
}

// Holding is whether a Secret has what is wanted of it.
type Holding uint8

// The worst is the least.
const (
	// Missing: there is no Secret of the name, or it is for something else.
	Missing Holding = iota
	// Bad is what cannot be used. Proxies are not sent it, and keep the one that they have.
	Bad
	// Good is what can be used.
	Good
)

// HoldsPair tells of the certificate and its key; nil holds none.
func (c *Credential) HoldsPair() Holding {
	switch {
	case c == nil || c.Pair == nil && !c.BadPair:
		return Missing
	case c.Pair == nil:
		return Bad
	}
	return Good
}

// HoldsAuthorities tells of the authorities; nil holds none.
func (c *Credential) HoldsAuthorities() Holding {
	switch {
	case c == nil || c.Authorities == nil && !c.BadAuthorities:
		return Missing
	case c.Authorities == nil:
		return Bad
	}
	return Good
}

// KeyPair is a certificate with those that vouch for it and its private key, in PEM. It was checked: the key is the
// certificate's, and of a kind that Envoy takes.
type KeyPair struct {
	Chain, Key Sensitive
}

// Authorities are certificates to check others by, in PEM, and lists of those that were revoked, if there are any.
type Authorities struct {
	Certificates, Revoked Sensitive
}

// Sensitive is text that is never shown: whatever prints, logs or encodes it shows a short hash in its place, which tells two
// of them apart. Text is the one way to it.
type Sensitive struct{ text string }

// Hidden makes text Sensitive.
func Hidden(text string) Sensitive { return Sensitive{text} }

// Text is what is hidden. It is for the resource that goes to the proxy, and for nothing else.
func (s Sensitive) Text() string { return s.text }

// IsEmpty tells that nothing is hidden.
func (s Sensitive) IsEmpty() bool { return s.text == "" }

// String is a hash of the text.
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

// LogValue implements slog.LogValuer.
func (s Sensitive) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Names of secrets on the wire (SDS), as Istio's.
const (
	secretScheme = "kubernetes://"
	caSuffix     = "-cacert"
)

// SecretName is the name of the resource with the certificate of a credential.
func SecretName(credential string) string { return secretScheme + credential }

// AuthoritiesName is the name of the resource with the authorities that go with a credential.
func AuthoritiesName(credential string) string { return secretScheme + credential + caSuffix }

// WantCredential is what a Secret should be that a credential names, for messages.
const WantCredential = "a Secret of type kubernetes.io/tls, or one with the keys cert, key and cacert"

// AuthoritiesOf is the name of the Secret that holds the authorities of a credential, unless its own does.
func AuthoritiesOf(credential string) string { return credential + caSuffix }

// CredentialsOf are the credentials that a Secret is for: that of its own name, and that of which it holds the authorities.
func CredentialsOf(secret string) []string {
	if of, ok := strings.CutSuffix(secret, caSuffix); ok && of != "" {
		return []string{secret, of}
	}
	return []string{secret}
}
