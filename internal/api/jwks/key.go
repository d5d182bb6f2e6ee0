package jwks

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
)

// key has the members of a JSON Web Key that Envoy reads. Private ones are never among them, but
// for the secret of a symmetric key.
type key struct {
	Type      string `json:"kty"`
	ID        string `json:"kid,omitempty"`
	Algorithm string `json:"alg,omitempty"`
	Curve     string `json:"crv,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	Secret    string `json:"k,omitempty"`
}

// readKey returns false for a key that Envoy cannot verify with.
func readKey(text json.RawMessage) (key, bool) {
	var in struct {
		key
		Use string `json:"use"`
	}
	if json.Unmarshal(text, &in) != nil || in.Use != "" && in.Use != "sig" || !in.takesAlgorithm() {
		return key{}, false
	}
	out := key{Type: in.Type, ID: in.ID, Algorithm: in.Algorithm}
	switch in.Type {
	case "RSA":
		return out.withRSA(decoded(in.N), decoded(in.E))
	case "EC":
		return out.withCurve(in.Curve, decoded(in.X), decoded(in.Y))
	case "OKP":
		return out.withEd25519(in.Curve, decoded(in.X))
	case "oct":
		out.Secret = encoded(decoded(in.Secret))
		return out, out.Secret != ""
	}
	return key{}, false
}

// takesAlgorithm reports whether Envoy verifies with a key of its type by its algorithm. Without
// one it takes what the type allows.
func (k key) takesAlgorithm() bool {
	if k.Algorithm == "" {
		return true
	}
	switch k.Type {
	case "RSA":
		return slices.Contains([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, k.Algorithm)
	case "EC":
		of := map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
		return k.Algorithm == of[k.Curve]
	case "OKP":
		return k.Algorithm == "EdDSA"
	}
	return slices.Contains([]string{"HS256", "HS384", "HS512"}, k.Algorithm)
}

// Bounds of BoringSSL, and the least that is not broken with little effort.
const (
	minModulusBits  = 1024
	maxModulusBits  = 16384
	maxExponentBits = 33
)

func (k key) withRSA(n, e []byte) (key, bool) {
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	bits := modulus.BitLen()
	if bits < minModulusBits || bits > maxModulusBits || modulus.Bit(0) == 0 {
		return key{}, false
	}
	if exponent.BitLen() < 2 || exponent.BitLen() > maxExponentBits || exponent.Bit(0) == 0 {
		return key{}, false
	}
	k.N, k.E = encoded(modulus.Bytes()), encoded(exponent.Bytes())
	return k, true
}

// curveOf returns a curve of tokens by its name, and the bytes of a coordinate; nil for any other.
func curveOf(name string) (curve ecdh.Curve, size int) {
	switch name {
	case "P-256":
		return ecdh.P256(), 32
	case "P-384":
		return ecdh.P384(), 48
	case "P-521":
		return ecdh.P521(), 66
	}
	return nil, 0
}

// withCurve takes a point that lies on its curve.
func (k key) withCurve(name string, x, y []byte) (key, bool) {
	curve, size := curveOf(name)
	if curve == nil || len(x) == 0 || len(y) == 0 {
		return key{}, false
	}
	x, y = padded(x, size), padded(y, size)
	if _, err := curve.NewPublicKey(slices.Concat([]byte{4}, x, y)); err != nil {
		return key{}, false
	}
	k.Curve, k.X, k.Y = name, encoded(x), encoded(y)
	return k, true
}

func (k key) withEd25519(name string, x []byte) (key, bool) {
	if name != "Ed25519" || len(x) != ed25519.PublicKeySize {
		return key{}, false
	}
	k.Curve, k.X = name, encoded(x)
	return k, true
}

// padded puts zeros in front, up to a size.
func padded(number []byte, size int) []byte {
	return append(make([]byte, max(0, size-len(number))), number...)
}

// certificates returns the keys of certificates by key id.
func certificates(members map[string]json.RawMessage) ([]key, error) {
	var keys []key
	found := false
	for id, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			continue
		}
		block, _ := pem.Decode([]byte(text))
		if block == nil || block.Type != "CERTIFICATE" {
			continue
		}
		found = true
		if k, ok := certified(id, block.Bytes); ok {
			keys = append(keys, k)
		}
	}
	if !found {
		return nil, errors.New(`has no "keys"`)
	}
	return keys, nil
}

func certified(id string, der []byte) (key, bool) {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return key{}, false
	}
	switch public := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		k := key{Type: "RSA", ID: id}
		return k.withRSA(public.N.Bytes(), big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil || len(point)%2 == 0 {
			return key{}, false
		}
		half := len(point) / 2
		k := key{Type: "EC", ID: id}
		return k.withCurve(public.Params().Name, point[1:1+half], point[1+half:])
	case ed25519.PublicKey:
		return key{Type: "OKP", ID: id}.withEd25519("Ed25519", public)
	}
	return key{}, false
}

// decoded reads base64url, with padding or without; nil if it cannot be read.
func decoded(text string) []byte {
	out, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil
	}
	return out
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
