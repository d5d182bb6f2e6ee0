package certs

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keep writes the certificate in force and its key where the next process finds them. So a proxy
// that starts again while the CA is away has a certificate. The key does not leave the machine's
// memory: a file elsewhere is not written.
func (m *Manager) keep(got *issued) error {
	path := m.options.Kept
	if path == "" {
		return nil
	}
	if !m.options.InMemory(filepath.Dir(path)) {
		m.options.Kept = "" // said once
		return fmt.Errorf("%s: the volume is not in memory; want an emptyDir with medium Memory", filepath.Dir(path))
	}
	return replaceFile(path, bytes.Join([][]byte{got.key, got.chain, got.roots}, nil), 0o600)
}

// takeKept puts the certificate in force that an earlier process has kept, if it may be used:
// somebody else's, one that has ended, and one of a root that is no longer the mesh's are removed.
func (m *Manager) takeKept() {
	path := m.options.Kept
	if path == "" {
		return
	}
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var kept *issued
	if err == nil {
		kept, err = m.readKept(text)
	}
	if err != nil {
		m.options.Log.Warn("the certificate of the last start is not used", "file", path, "error", err)
		if err := os.Remove(path); err != nil {
			m.options.Log.Warn("it cannot be removed", "error", err)
		}
		return
	}
	m.force(kept)
}

// readKept checks a kept certificate as if the CA had just sent it, and that it is still good.
func (m *Manager) readKept(text []byte) (*issued, error) {
	block, certificates := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no key")
	}
	key, err := parseKey(block)
	if err != nil {
		return nil, err
	}
	kept, err := m.options.Request.accept([][]byte{certificates}, key)
	if err != nil {
		return nil, err
	}
	if now, end := m.options.Clock.Now(), kept.pair.Leaf.NotAfter; !now.Before(end) {
		return nil, fmt.Errorf("it has ended at %s", end)
	}
	if m.options.RootFile != "" && !m.hasRootOf(kept) {
		return nil, fmt.Errorf("its root is not in %s", m.options.RootFile)
	}
	return kept, nil
}

// hasRootOf reports whether a root of the certificate is in the root file.
func (m *Manager) hasRootOf(kept *issued) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	mesh, err := parsePEM(m.fileRoots)
	if err != nil {
		return false
	}
	own, err := parsePEM(kept.roots)
	if err != nil {
		return false
	}
	for _, root := range own {
		for _, known := range mesh {
			if root.Equal(known) {
				return true
			}
		}
	}
	return false
}

// parseKey is the reverse of Request.encodeKey.
func parseKey(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("there is a block %.40q; want a private key", block.Type)
	}
	if err != nil {
		return nil, errors.New("the key cannot be parsed") // its error may quote the key
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	return signer, nil
}
