package features

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// keyKind is an issuer with a key of some kind.
type keyKind struct {
	key, algorithm, keys string
	sign                 func(text []byte) []byte
}

// token is one of the issuer, which has the name of the kind.
func (k keyKind) token(t *testing.T, issuer string) string {
	t.Helper()
	head, err := json.Marshal(map[string]string{"alg": k.algorithm, "kid": "k"})
	require.NoError(t, err)
	body, err := json.Marshal(claims{"iss": issuer, "sub": "me", "exp": time.Now().Add(time.Hour).Unix()})
	require.NoError(t, err)
	text := base64url(head) + "." + base64url(body)
	return text + "." + base64url(k.sign([]byte(text)))
}

// keyKinds are all kinds of keys that docs/policies.md names, by the issuers that have them.
func keyKinds(t *testing.T) map[string]keyKind {
	t.Helper()
	kinds := rsaKinds(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	kinds["ed25519"] = keyKind{
		"ed25519", "EdDSA", fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}]}`, base64url(public)),
		func(text []byte) []byte { return ed25519.Sign(private, text) },
	}
	secret := []byte("a secret that only the issuer and the mesh know")
	kinds["symmetric"] = keyKind{
		"secret", "HS256", fmt.Sprintf(`{"keys":[{"kty":"oct","kid":"k","k":%q}]}`, base64url(secret)),
		func(text []byte) []byte {
			code := hmac.New(sha256.New, secret)
			_, _ = code.Write(text)
			return code.Sum(nil)
		},
	}
	for name, curve := range map[string]elliptic.Curve{"ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		kinds[strings.ToLower(name)] = curveKind(t, name, curve)
	}
	return kinds
}

// rsaKinds are RSA keys, with both paddings, and one in a certificate.
func rsaKinds(t *testing.T) map[string]keyKind {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	keys := fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"k","n":%q,"e":"AQAB"}]}`, base64url(key.N.Bytes()))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	byID, err := json.Marshal(map[string]string{"k": text})
	require.NoError(t, err)
	pkcs := func(text []byte) []byte {
		digest := sha256.Sum256(text)
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		require.NoError(t, err)
		return signature
	}
	pss := func(text []byte) []byte {
		digest := sha256.Sum256(text)
		signature, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest[:],
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		require.NoError(t, err)
		return signature
	}
	return map[string]keyKind{
		"rsa": {"rsa", "RS256", keys, pkcs}, "rsa-pss": {"rsa", "PS256", keys, pss},
		"certificate": {"rsa", "RS256", string(byID), pkcs},
	}
}

func curveKind(t *testing.T, algorithm string, curve elliptic.Curve) keyKind {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	size := len(point) / 2
	return keyKind{
		algorithm, algorithm, fmt.Sprintf(`{"keys":[{"kty":"EC","crv":%q,"kid":"k","x":%q,"y":%q}]}`,
			curve.Params().Name, base64url(point[1:1+size]), base64url(point[1+size:])),
		func(text []byte) []byte {
			digest := sha512.Sum384(text)
			hashed := digest[:]
			if algorithm == "ES512" {
				longer := sha512.Sum512(text)
				hashed = longer[:]
			}
			r, s, err := ecdsa.Sign(rand.Reader, key, hashed)
			require.NoError(t, err)
			signature := make([]byte, 2*size)
			r.FillBytes(signature[:size])
			s.FillBytes(signature[size:])
			return signature
		},
	}
}

// TestTokensAreVerifiedByEveryKindOfKey has one issuer for each kind of key. The token of one is
// not accepted as that of another.
func TestTokensAreVerifiedByEveryKindOfKey(t *testing.T) {
	kinds := keyKinds(t)
	var rules []string
	for issuer, k := range kinds {
		rules = append(rules, fmt.Sprintf("{issuer: %q, jwks: '%s'}", issuer, k.keys))
	}
	m := livemesh.Start(t, livemesh.File("mesh.yaml", livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080"), authentication("web", "web", rules...),
		livemesh.Object("AuthorizationPolicy web", `rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]`)))
	m.RequireNoProblems()
	get := func(token string) int { return m.Gateway("web-v1", 8080).Get("/", bearer(token)).Status }
	for issuer, k := range kinds {
		assert.Equal(t, 200, get(k.token(t, issuer)), issuer)
		for other := range kinds {
			if kinds[other].key != k.key {
				assert.Equal(t, 401, get(k.token(t, other)), "%s signs as %s", issuer, other)
			}
		}
	}
}
