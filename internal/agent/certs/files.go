package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// maxFileBytes is the size of the largest file that is read.
	maxFileBytes = 1 << 20
	// maxSources of files are followed.
	maxSources = 256
	// settle is how long files may change before they are read.
	settle = 100 * time.Millisecond
	// poll is how often files are read of which no event tells, as behind a link.
	poll = time.Minute
)

// source is something that is read from files, and read again when they change.
type source struct {
	paths []string
	read  func() error
	// failure is what was logged last.
	failure string
}

// files follows sources.
type files struct {
	clock   Clock
	log     *slog.Logger
	watcher *fsnotify.Watcher // nil if the system gives none: then the poll has to do

	mu      sync.Mutex
	sources map[string]*source
}

func newFiles(clock Clock, log *slog.Logger) *files {
	f := &files{clock: clock, log: log, sources: map[string]*source{}}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("files are read once a minute, as they cannot be watched", "error", err)
		return f
	}
	f.watcher = watcher
	return f
}

// follow reads a source now, and whenever one of its files changes. A name that is followed already
// changes nothing.
func (f *files) follow(name string, s *source) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sources[name] != nil {
		return nil
	}
	if len(f.sources) == maxSources {
		return fmt.Errorf("%q: at most %d certificates of files are served", name, maxSources)
	}
	f.sources[name] = s
	f.watch(s)
	f.readOne(name, s)
	return nil
}

// watch watches the directories of a source: Kubernetes replaces a mounted file by a link beside
// it.
func (f *files) watch(s *source) {
	if f.watcher == nil {
		return
	}
	for _, path := range s.paths {
		// a directory that does not exist yet is tried again with the poll
		_ = f.watcher.Add(filepath.Dir(path))
	}
}

// readOne reads a source. What cannot be read stays as it was; that is logged once for each reason.
func (f *files) readOne(name string, s *source) {
	failure := ""
	if err := s.read(); err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != s.failure {
		f.log.Warn("a certificate of files cannot be used", "name", name, "error", failure)
	}
	s.failure = failure
}

func (f *files) readAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, s := range f.sources {
		f.watch(s)
		f.readOne(name, s)
	}
}

// run follows the sources until ctx ends.
func (f *files) run(ctx context.Context) {
	var events <-chan fsnotify.Event
	var failures <-chan error
	if f.watcher != nil {
		defer func() { _ = f.watcher.Close() }()
		events, failures = f.watcher.Events, f.watcher.Errors
	}
	next, due := f.clock.After(poll), (<-chan time.Time)(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			if due == nil {
				due = f.clock.After(settle)
			}
			continue
		case err := <-failures: // events were lost
			f.log.Debug("all files are read again", "error", err)
		case <-due:
		case <-next:
			next = f.clock.After(poll)
		}
		due = nil
		f.readAll()
	}
}

// sourceOf returns the source of a secret by its name, as Istio has them: file-cert:<chain>~<key>
// and file-root:<path>. It returns nil for other names.
func sourceOf(name string, to *secrets) *source {
	if path, ok := strings.CutPrefix(name, "file-root:"); ok && path != "" {
		return rootsIn(name, path, to)
	}
	rest, ok := strings.CutPrefix(name, "file-cert:")
	chain, key, isPair := strings.Cut(rest, "~")
	if !ok || !isPair || chain == "" || key == "" {
		return nil
	}
	return pairIn(name, Files{Chain: chain, Key: key}, to, func(*tls.Certificate) error { return nil })
}

// rootsIn is a source of roots.
func rootsIn(name, path string, to *secrets) *source {
	return &source{paths: []string{path}, read: func() error {
		roots, err := readPEM(path)
		if err == nil {
			to.set(name, rootsSecret(name, roots, nil))
		}
		return err
	}}
}

// pairIn is a source of a certificate. One whose key is another's is not used: the files are
// replaced one after the other.
func pairIn(name string, f Files, to *secrets, use func(*tls.Certificate) error) *source {
	return &source{paths: []string{f.Chain, f.Key}, read: func() error {
		chain, err := readFile(f.Chain)
		if err != nil {
			return err
		}
		key, err := readFile(f.Key)
		if err != nil {
			return err
		}
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return fmt.Errorf("%s and %s: %w", f.Chain, f.Key, err)
		}
		to.set(name, certificateSecret(name, chain, key))
		return use(&pair)
	}}
}

// readPEM reads a file of certificates.
func readPEM(path string) ([]byte, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if _, err := parsePEM(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

// readRevoked reads a file of lists of revoked certificates. Without a file, or in an empty one,
// there are none.
func readRevoked(path string) ([]byte, error) {
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	for lists := 1; ; lists++ {
		if block == nil || block.Type != "X509 CRL" {
			return nil, fmt.Errorf("%s: part %d is no list of revoked certificates; want X509 CRL in PEM", path, lists)
		}
		if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
			return nil, fmt.Errorf("%s: list %d: %w", path, lists, err)
		}
		if len(bytes.TrimSpace(rest)) == 0 {
			return text, nil
		}
		block, rest = pem.Decode(rest)
	}
}

// readFile reads a file. It looks at it first, because to open a pipe would wait for who writes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return text, err
}

// replaceFile writes a file in one step.
func replaceFile(path string, content []byte, mode os.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path))
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
