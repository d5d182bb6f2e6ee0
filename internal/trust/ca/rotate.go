package ca

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"strings"
	"time"
)

// The keys of the Secrets istio-ca-secret and cacerts, which are Istio's.
const (
	certificateKey = "ca-cert.pem"
	privateKey     = "ca-key.pem"
	chainKey       = "cert-chain.pem"
	rootsKey       = "root-cert.pem"
	// unusedKey is written empty, as Istio does.
	unusedKey = "key.pem"
)

// The keys of istio-ca-secret from the time when a next root is made until it signs.
const (
	nextCertificateKey = "next-cert.pem"
	nextPrivateKey     = "next-key.pem"
	nextChainKey       = "next-chain.pem"
	// nextFromKey has the time from which the next root signs (RFC 3339).
	nextFromKey = "next-from"
)

// rotation says how a self-signed root is replaced.
type rotation struct {
	// overlap is how long a new root is distributed before it signs. If it is at least the longest
	// life of a leaf, all clients have the new root by then, even those that get roots only
	// together with a certificate of their own.
	overlap time.Duration
}

// remainingShare of a root's life is left when the next one is made: a fifth.
const remainingShare = 5

// next returns the content that the Secret should have: the same if nothing is due. Content that
// cannot be read is an error, since replacing it would break the mesh. There are three phases:
//
//	alone       signs: old   bundle: old         a leaf is sent with: nothing
//	overlap     signs: old   bundle: old, next   a leaf is sent with: key of old, certified by next
//	switched    signs: next  bundle: next, old   a leaf is sent with: key of next, certified by old
//
// When old has expired, next is alone.
func (r rotation) next(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	if len(data[certificateKey]) == 0 && len(data[privateKey]) == 0 {
		return r.first(now)
	}
	old, err := readRoot(data, certificateKey, privateKey)
	if err != nil {
		return nil, err
	}
	from, err := switchTime(data)
	if err != nil {
		return nil, err
	}
	switch left := old.certificate.NotAfter.Sub(now); {
	case !from.IsZero() && (!now.Before(from) || left <= 0):
		return r.switched(data, now)
	case left <= 0: // nobody trusts it any more
		return r.first(now)
	case from.IsZero() && left < lifetime(old.certificate)/remainingShare:
		return r.begin(data, old, now)
	}
	return withoutExpired(data, now)
}

func lifetime(c *x509.Certificate) time.Duration { return c.NotAfter.Sub(c.NotBefore) }

// first returns the content with a new root and nothing else.
func (r rotation) first(now time.Time) (map[string][]byte, error) {
	made, err := newRoot(now)
	if err != nil {
		return nil, err
	}
	key, err := made.encodeKey()
	text := []byte(encodeCertificate(made.certificate))
	return map[string][]byte{
		certificateKey: text, privateKey: key, rootsKey: text, chainKey: {}, unusedKey: {},
	}, err
}

// begin makes the next root and adds it to the bundle.
func (r rotation) begin(data map[string][]byte, old root, now time.Time) (map[string][]byte, error) {
	made, err := newRoot(now)
	if err != nil {
		return nil, err
	}
	key, err := made.encodeKey()
	if err != nil {
		return nil, err
	}
	oldByNext, err := crossSign(old, made, now)
	if err != nil {
		return nil, err
	}
	nextByOld, err := crossSign(made, old, now)
	if err != nil {
		return nil, err
	}
	wait := min(r.overlap, old.certificate.NotAfter.Sub(now)/2)
	after := maps.Clone(data)
	after[nextCertificateKey] = []byte(encodeCertificate(made.certificate))
	after[nextPrivateKey] = key
	after[nextChainKey] = []byte(encodeCertificate(nextByOld))
	after[nextFromKey] = []byte(now.Add(wait).UTC().Format(time.RFC3339))
	after[chainKey] = []byte(encodeCertificate(oldByNext))
	after[rootsKey] = joinPEM(data[rootsKey], after[nextCertificateKey])
	return after, nil
}

// switched makes the next root the one that signs. The old one stays in the bundle.
func (r rotation) switched(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	if _, err := readRoot(data, nextCertificateKey, nextPrivateKey); err != nil {
		return nil, err
	}
	after := maps.Clone(data)
	after[certificateKey] = data[nextCertificateKey]
	after[privateKey] = data[nextPrivateKey]
	after[chainKey] = data[nextChainKey]
	for _, key := range []string{nextCertificateKey, nextPrivateKey, nextChainKey, nextFromKey} {
		delete(after, key)
	}
	return withoutExpired(after, now)
}

// withoutExpired removes expired certificates from the bundle and the chain.
func withoutExpired(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	after := data
	for _, key := range []string{rootsKey, chainKey} {
		if len(bytes.TrimSpace(data[key])) == 0 {
			continue
		}
		all, err := parseCertificates(data[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		var valid []*x509.Certificate
		for _, c := range all {
			if !now.After(c.NotAfter) {
				valid = append(valid, c)
			}
		}
		if len(valid) < len(all) {
			after = maps.Clone(after)
			after[key] = []byte(strings.Join(encodeCertificates(valid), ""))
		}
	}
	return after, nil
}

func readRoot(data map[string][]byte, certificate, key string) (root, error) {
	all, err := parseCertificates(data[certificate])
	if err != nil {
		return root{}, fmt.Errorf("%s: %w", certificate, err)
	}
	signer, err := parseKey(data[key])
	if err != nil {
		return root{}, fmt.Errorf("%s: %w", key, err)
	}
	return root{all[0], signer}, nil
}

// switchTime returns when the next root begins to sign; zero if there is none.
func switchTime(data map[string][]byte) (time.Time, error) {
	text, ok := data[nextFromKey]
	if !ok {
		return time.Time{}, nil
	}
	from, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: want a time such as 2026-01-02T15:04:05Z: %w", nextFromKey, err)
	}
	return from, nil
}

func joinPEM(a, b []byte) []byte {
	if len(a) > 0 && a[len(a)-1] != '\n' {
		a = append(bytes.Clone(a), '\n')
	}
	return append(bytes.Clone(a), b...)
}
