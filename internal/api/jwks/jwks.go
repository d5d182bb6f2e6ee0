package jwks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// None is a set that verifies no token, for Envoy, which refuses a listener with an empty one. Its
// key is a point of P-256 that a hash leads to, so nobody can know the private key.
const None = `{"keys":[{"kty":"EC","kid":"none","crv":"P-256",` +
	`"x":"_qf-9dxMg4VFdO14vj7jh-SQonNu3DZ_92U_twA2oXk","y":"EePHwKL_quikUJ1EfyNB5p4HmPoqqAHuttO4bHre7-c"}]}`

// Bounds of a set. Issuers have a handful of keys.
const (
	MaxKeys  = 100
	MaxBytes = 64 << 10 // of the canonical form
)

// Read returns a set in its canonical form: the keys that Envoy can verify signatures with, with
// the members that it reads, sorted. Keys of other types, keys for encryption and keys with
// mistakes are left out. It fails if none is left.
//
// A text may also be an object of certificates in PEM by key id, as Google serves them.
func Read(text []byte) (string, error) { return read(text, true) }

// ReadPublic is Read for a set that anyone can read. Symmetric keys in it are left out, because
// whoever reads one can sign tokens with it.
func ReadPublic(text []byte) (string, error) { return read(text, false) }

func read(text []byte, symmetric bool) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return "", fmt.Errorf("is no object of JSON: %w", err)
	}
	keys, err := keysOf(members)
	if err != nil {
		return "", err
	}
	if !symmetric {
		keys = slices.DeleteFunc(keys, func(k key) bool { return k.Type == "oct" })
	}
	switch {
	case len(keys) == 0:
		return "", errors.New("has no key that signatures can be verified with")
	case len(keys) > MaxKeys:
		return "", fmt.Errorf("has %d keys, more than %d", len(keys), MaxKeys)
	}
	set, err := encode(keys)
	if err == nil && len(set) > MaxBytes {
		return "", fmt.Errorf("has keys of %d bytes, more than %d", len(set), MaxBytes)
	}
	return set, err
}

// keysOf returns the usable keys of a set.
func keysOf(members map[string]json.RawMessage) ([]key, error) {
	list, isSet := members["keys"]
	if !isSet {
		return certificates(members)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, errors.New(`has "keys" that is no list`)
	}
	var keys []key
	for _, text := range raw {
		if k, ok := readKey(text); ok {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

func encode(keys []key) (string, error) {
	texts := make([]string, 0, len(keys))
	for _, k := range keys {
		text, err := json.Marshal(k)
		if err != nil {
			return "", fmt.Errorf("has a key that cannot be written: %w", err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return `{"keys":[` + strings.Join(slices.Compact(texts), ",") + `]}`, nil
}
