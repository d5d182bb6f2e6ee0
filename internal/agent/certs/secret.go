package certs

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Names of the workload's own secrets.
const (
	ownName   = "default"
	rootsName = "ROOTCA"
)

// secret is a resource of SDS.
type secret struct {
	version string
	any     []byte // the message google.protobuf.Any
}

// certificateSecret returns a secret with a tls_certificate (2): chain (1) and key (2).
func certificateSecret(name string, chain, key []byte) secret {
	pair := wire.AppendBytes(wire.AppendBytes(nil, 1, inline(chain)), 2, inline(key))
	return newSecret(name, 2, pair)
}

// rootsSecret returns a secret with a validation_context (4): trusted_ca (1), and crl (7) unless
// there are no lists of revoked certificates.
func rootsSecret(name string, roots, revoked []byte) secret {
	context := wire.AppendBytes(nil, 1, inline(roots))
	if len(revoked) > 0 {
		context = wire.AppendBytes(context, 7, inline(revoked))
	}
	return newSecret(name, 4, context)
}

// inline returns a DataSource of inline_bytes (2).
func inline(content []byte) []byte { return wire.AppendBytes(nil, 2, content) }

func newSecret(name string, kind protowire.Number, content []byte) secret {
	body := wire.AppendBytes(nil, 1, []byte(name))
	body = wire.AppendBytes(body, kind, content)
	packed := wire.AppendBytes(wire.AppendBytes(nil, 1, []byte(typeurl.Secret)), 2, body)
	sum := sha256.Sum256(body)
	return secret{version: hex.EncodeToString(sum[:8]), any: packed}
}

// secrets are those in force, by name.
type secrets struct {
	mu      sync.Mutex
	all     map[string]secret
	changed chan struct{} // closed with each change, and replaced
}

func newSecrets() *secrets {
	return &secrets{all: map[string]secret{}, changed: make(chan struct{})}
}

// set puts a secret in force. It returns false if it was already.
func (s *secrets) set(name string, to secret) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name].version == to.version {
		return false
	}
	s.all[name] = to
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// get returns the secrets of some names, those that there are, and a channel that is closed when
// any secret changes.
func (s *secrets) get(names map[string]string) (found map[string]secret, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = map[string]secret{}
	for name := range names {
		if one, ok := s.all[name]; ok {
			found[name] = one
		}
	}
	return found, s.changed
}
