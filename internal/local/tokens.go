package local

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sync"
)

// Identity is the owner of a token: the pod and its service account.
type Identity struct {
	Namespace, ServiceAccount, Pod string
}

// Tokens has the xDS token of each pod. It is safe for concurrent use.
type Tokens struct {
	mu sync.RWMutex
	// byHash has the SHA-256 of tokens as keys, so that the time of a lookup tells nothing about
	// the tokens.
	byHash map[TokenHash]Identity
	// version counts the changes.
	version uint64
}

// TokenHash is the SHA-256 of a token. It verifies a token, and does not reveal it.
type TokenHash [sha256.Size]byte

// MarshalText implements encoding.TextMarshaler, in hexadecimal digits.
func (h TokenHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *TokenHash) UnmarshalText(text []byte) error {
	if n := hex.DecodedLen(len(text)); n != len(h) {
		return fmt.Errorf("%d bytes, want a SHA-256 of %d", n, len(h))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// NewTokens returns an empty registry.
func NewTokens() *Tokens {
	return &Tokens{byHash: map[TokenHash]Identity{}}
}

// Lookup returns the identity that a bearer token stands for.
func (t *Tokens) Lookup(token string) (Identity, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.byHash[sha256.Sum256([]byte(token))]
	return id, ok
}

// Account returns the namespace, the service account and the pod that a bearer token stands for.
func (t *Tokens) Account(token string) (namespace, serviceAccount, pod string, known bool) {
	id, known := t.Lookup(token)
	return id.Namespace, id.ServiceAccount, id.Pod, known
}

// issue returns a new random token for an identity.
func (t *Tokens) issue(id Identity) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash[sha256.Sum256([]byte(token))] = id
	t.version++
	return token
}

// revoke removes a token.
func (t *Tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byHash, sha256.Sum256([]byte(token)))
	t.version++
}

// Known returns the identities by the hashes of their tokens, for another process to verify tokens.
// The version changes with each change of them.
func (t *Tokens) Known() (known map[TokenHash]Identity, version uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.byHash), t.version
}

// Learn replaces all tokens by what another process knows.
func (t *Tokens) Learn(known map[TokenHash]Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash = maps.Clone(known)
	t.version++
}
