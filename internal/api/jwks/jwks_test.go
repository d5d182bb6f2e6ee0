package jwks_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

// idsOf are the key ids of a set, with the members that each key has.
func idsOf(t *testing.T, set string) map[string]map[string]string {
	t.Helper()
	var read struct{ Keys []map[string]string }
	require.NoError(t, json.Unmarshal([]byte(set), &read))
	found := map[string]map[string]string{}
	for _, k := range read.Keys {
		found[k["kid"]] = k
	}
	return found
}

func text(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	require.NoError(t, err)
	return data
}

func TestReadKeepsTheKeysThatEnvoyCanVerifyWith(t *testing.T) {
	set, err := jwks.Read(text(t, "keys"))
	require.NoError(t, err)
	keys := idsOf(t, set)
	for _, id := range []string{"r1", "e1", "d1", "s", "private"} {
		require.Contains(t, keys, id)
	}
	require.Len(t, keys, 5, "not keys for encryption, of other types, and off their curve")
	require.NotContains(t, keys["private"], "d", "nothing private goes on")
	require.NotContains(t, keys["private"], "x5c")
	require.Equal(t, "RS256", keys["r1"]["alg"])

	again, err := jwks.Read([]byte(set))
	require.NoError(t, err)
	require.Equal(t, set, again, "the canonical form of a canonical form is itself")
}

func TestAPublicSymmetricKeyVerifiesNothing(t *testing.T) {
	set, err := jwks.ReadPublic(text(t, "keys"))
	require.NoError(t, err)
	require.NotContains(t, idsOf(t, set), "s")
	_, err = jwks.ReadPublic([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`))
	require.ErrorContains(t, err, "has no key")
}

func TestReadTakesCertificatesByKeyID(t *testing.T) {
	set, err := jwks.Read(text(t, "certificates"))
	require.NoError(t, err)
	keys := idsOf(t, set)
	require.Len(t, keys, 2)
	require.Equal(t, "RSA", keys["rsa"]["kty"])
	require.Equal(t, "P-256", keys["ec"]["crv"])

	direct, err := jwks.Read(text(t, "keys"))
	require.NoError(t, err)
	require.Equal(t, idsOf(t, direct)["r1"]["n"], keys["rsa"]["n"], "it is the key of the certificate")
}

func TestTheOrderOfKeysDoesNotCount(t *testing.T) {
	var read struct{ Keys []json.RawMessage }
	require.NoError(t, json.Unmarshal(text(t, "keys"), &read))
	read.Keys[0], read.Keys[1] = read.Keys[1], read.Keys[0]
	turned, err := json.Marshal(map[string]any{"keys": read.Keys})
	require.NoError(t, err)
	a, err := jwks.Read(turned)
	require.NoError(t, err)
	b, err := jwks.Read(text(t, "keys"))
	require.NoError(t, err)
	require.Equal(t, b, a)
}

// The private key of a point that a hash leads to is nobody's.
func TestNobodyHasTheKeyOfNone(t *testing.T) {
	x := sha256.Sum256([]byte("nobody has this key 4"))
	require.Equal(t, base64.RawURLEncoding.EncodeToString(x[:]), idsOf(t, jwks.None)["none"]["x"])
	set, err := jwks.Read([]byte(jwks.None))
	require.NoError(t, err, "it lies on its curve")
	require.Equal(t, jwks.None, set)
}

func TestReadRefuses(t *testing.T) {
	many := `{"keys":[` + strings.Repeat(`{"kty":"oct","k":"c2VjcmV0"},`, jwks.MaxKeys) + `{"kty":"oct","k":"AAAA"}]}`
	long := `{"keys":[{"kty":"oct","k":"` + strings.Repeat("A", jwks.MaxBytes) + `"}]}`
	for input, want := range map[string]string{
		"":                         "is no object of JSON",
		"[]":                       "is no object of JSON",
		"{}":                       `has no "keys"`,
		`{"a":"b"}`:                `has no "keys"`,
		`{"keys":{}}`:              "no list",
		`{"keys":[]}`:              "has no key",
		`{"keys":[{"kty":"RSA"}]}`: "has no key",

		`{"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"RS256"}]}`: "has no key",
		many: "has 101 keys",
		long: "bytes, more than",
	} {
		_, err := jwks.Read([]byte(input))
		require.ErrorContains(t, err, want, "%.60s", input)
	}
}

// FuzzRead reads what an issuer may serve.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"keys", "certificates"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(jwks.None))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}],"keys":7}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := jwks.Read(data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(set), jwks.MaxBytes)
		again, err := jwks.Read([]byte(set))
		require.NoError(t, err)
		require.Equal(t, set, again)
	})
}
