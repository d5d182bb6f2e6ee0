package local

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
)

// Identity is who holds a token: the pod and the service account that it runs as.
type Identity struct {
	Namespace, ServiceAccount, Pod string
}

// Tokens knows which pod each xDS token was given to. It is safe for concurrent use.
type Tokens struct {
	mu sync.RWMutex
	// byHash is keyed by the token's SHA-256, so that the time of a look-up tells nothing about the tokens held.
	byHash map[[sha256.Size]byte]Identity
}

// NewTokens returns an empty registry.
func NewTokens() *Tokens {
	return &Tokens{byHash: map[[sha256.Size]byte]Identity{}}
}

// Lookup returns the identity that a bearer token stands for.
func (t *Tokens) Lookup(token string) (Identity, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.byHash[sha256.Sum256([]byte(token))]
	return id, ok
}

// Account returns the namespace and the service account that a bearer token stands for.
func (t *Tokens) Account(token string) (namespace, serviceAccount string, known bool) {
	id, known := t.Lookup(token)
	return id.Namespace, id.ServiceAccount, known
}

// issue makes a random token for an identity.
func (t *Tokens) issue(id Identity) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash[sha256.Sum256([]byte(token))] = id
	return token
}

// revoke makes the token worthless.
func (t *Tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byHash, sha256.Sum256([]byte(token)))
}
