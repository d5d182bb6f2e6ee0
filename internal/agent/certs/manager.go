package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// Manager has the certificates of a proxy.
type Manager struct {
	options Options
	secrets *secrets
	files   *files
	pair    atomic.Pointer[tls.Certificate]
	counts  counters
	// ended spaces out the attempts while the CA's certificates have ended when they come.
	ended wire.Backoff

	mu sync.Mutex
	// The roots, in PEM, by where they come from.
	fileRoots, issuedRoots, bundle, mountedRoots []byte
	// revoked are lists of revoked certificates, in PEM, unless nobody can tell.
	revoked        []byte
	unknownRevoked bool
}

type counters struct{ requests, failures, refused atomic.Int64 }

// Stats are counts since the start.
type Stats struct {
	// Requests to the CA (num_outgoing_requests), and those that failed
	// (num_failed_outgoing_requests).
	Requests, Failures int64
	// Refused are secrets that Envoy has refused.
	Refused int64
	// Expires is when the workload's own certificate does; zero without one (cert_expiry_seconds).
	Expires time.Time
}

// New returns a Manager. It reads the files that are mounted.
func New(o Options) (*Manager, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.InMemory == nil {
		o.InMemory = InMemory
	}
	m := &Manager{
		options: o, secrets: newSecrets(), files: newFiles(o.Clock, o.Log),
		ended:          wire.Backoff{Base: retryBase, Max: endedMax},
		unknownRevoked: o.RevokedFile != "",
	}
	if o.RevokedFile != "" {
		revoked := &source{paths: []string{o.RevokedFile}, read: m.readRevoked}
		if err := m.files.follow("revoked certificates", revoked); err != nil {
			return nil, err
		}
	}
	if o.RootFile != "" {
		err := m.files.follow("the root file", &source{paths: []string{o.RootFile}, read: m.readRoots})
		if err != nil {
			return nil, err
		}
	}
	m.takeKept()
	if o.Mounted.Root != "" {
		mounted := &source{paths: []string{o.Mounted.Root}, read: m.readMountedRoots}
		if err := m.files.follow(rootsName, mounted); err != nil {
			return nil, err
		}
	}
	if o.Mounted.Chain != "" {
		return m, m.files.follow(ownName, pairIn(ownName, o.Mounted, m.secrets, m.usePair))
	}
	return m, nil
}

// usePair takes a mounted pair.
func (m *Manager) usePair(pair *tls.Certificate) error {
	m.pair.Store(pair)
	return nil
}

// Run asks for certificates, renews them and follows files until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { m.files.run(ctx) })
	if m.options.CA != nil {
		m.renew(ctx)
	}
	wg.Wait()
	return nil
}

const (
	retryBase = time.Second
	retryMax  = 30 * time.Second
	// endedMax is how long the manager waits at most after a certificate that had ended when it
	// came.
	endedMax = time.Hour
	// longestWait is how long the manager sleeps at most: a machine that was suspended has another
	// time than its timers.
	longestWait = 45 * time.Second
)

// renew asks for a certificate whenever one is due. Failed attempts are repeated with backoff; the
// certificate that is in force stays.
func (m *Manager) renew(ctx context.Context) {
	backoff := wire.Backoff{Base: retryBase, Max: retryMax}
	for ctx.Err() == nil {
		m.counts.requests.Add(1)
		got, err := m.options.Request.issue(ctx, m.options.CA)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			m.counts.failures.Add(1)
			wait := m.retryAfter(backoff.Next())
			m.options.Log.Warn("there is no new certificate", "identity", shortName(m.options.Request.Identity),
				"code", status.Code(err).String(), "error", err, "retry", wait)
			m.await(ctx, m.options.Clock.Now().Add(wait))
			continue
		}
		backoff.Reset()
		m.use(got)
		m.await(ctx, m.dueAt(got.pair.Leaf.NotBefore, got.pair.Leaf.NotAfter))
	}
}

// retryAfter shortens the wait after a failed attempt to a quarter of what is left of the
// certificate in force, so that several attempts remain before it ends.
func (m *Manager) retryAfter(wait time.Duration) time.Duration {
	pair := m.pair.Load()
	if pair == nil || pair.Leaf == nil {
		return wait
	}
	left := pair.Leaf.NotAfter.Sub(m.options.Clock.Now())
	if left <= 0 {
		return wait
	}
	return min(wait, max(left/4, retryBase/2))
}

// dueAt returns when a certificate that was just issued is to be renewed. Its life begins now,
// since the CA has dated it back, unless the clock is wrong. A renewal is never sooner than after a
// tenth of that life, or one second if that is longer: neither a machine whose clock is wrong nor
// one whose CA expires asks without end. One that has ended already is of a CA that ends, and will
// be replaced at any time, or this clock is ahead: that is tried again soon, and then less and less
// often.
func (m *Manager) dueAt(from, until time.Time) time.Time {
	now := m.options.Clock.Now()
	if now.After(from) && now.Before(until) {
		from = now
	}
	if !now.Before(until) {
		return now.Add(m.ended.Next())
	}
	m.ended.Reset()
	life := until.Sub(from)
	grace := m.options.Grace + m.options.Jitter*(2*rand.Float64()-1) //nolint:gosec // it spreads renewals, no more
	due := until.Add(-time.Duration(grace * float64(life)))
	if soonest := now.Add(max(life/10, retryBase)); due.Before(soonest) {
		return soonest
	}
	return due
}

// await waits until a time.
func (m *Manager) await(ctx context.Context, at time.Time) {
	for {
		left := at.Sub(m.options.Clock.Now())
		if left <= 0 {
			return
		}
		select {
		case <-m.options.Clock.After(min(left, longestWait)):
		case <-ctx.Done():
			return
		}
	}
}

// force puts a certificate in force. Its root goes first, so that a peer which has the new one is
// trusted.
func (m *Manager) force(got *issued) {
	m.setRoots(func() { m.issuedRoots = got.roots })
	m.pair.Store(got.pair)
	m.secrets.set(ownName, certificateSecret(ownName, got.chain, got.key))
}

// use puts a certificate that the CA has sent in force, and writes it where it is wanted.
func (m *Manager) use(got *issued) {
	m.force(got)
	m.options.Log.Info("there is a new certificate", "identity", shortName(m.options.Request.Identity),
		"until", got.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	if err := m.output(got); err != nil {
		m.options.Log.Warn("the certificate is not written", "error", err)
	}
	if err := m.keep(got); err != nil {
		m.options.Log.Warn("the next start will have no certificate before the CA answers", "error", err)
	}
}

// output writes a certificate where OUTPUT_CERTS wants it: the key first, which is of no use to
// others, then what belongs to it.
func (m *Manager) output(got *issued) error {
	o := m.options.Output
	if o == (Files{}) {
		return nil
	}
	if err := replaceFile(o.Key, got.key, 0o600); err != nil {
		return fmt.Errorf("OUTPUT_CERTS: %w", err)
	}
	if err := replaceFile(o.Chain, got.chain, 0o600); err != nil {
		return fmt.Errorf("OUTPUT_CERTS: %w", err)
	}
	m.mu.Lock()
	roots := union(m.fileRoots, m.issuedRoots, m.bundle)
	m.mu.Unlock()
	if err := replaceFile(o.Root, roots, 0o600); err != nil {
		return fmt.Errorf("OUTPUT_CERTS: %w", err)
	}
	return nil
}

func (m *Manager) readRoots() error {
	roots, err := readPEM(m.options.RootFile)
	if err == nil {
		m.setRoots(func() { m.fileRoots = roots })
	}
	return err
}

func (m *Manager) readMountedRoots() error {
	roots, err := readPEM(m.options.Mounted.Root)
	if err == nil {
		m.setRoots(func() { m.mountedRoots = roots })
	}
	return err
}

// readRevoked reads which certificates are revoked. As long as nobody can tell, there are no roots
// either; those that are in force stay, with the lists from before.
func (m *Manager) readRevoked() error {
	revoked, err := readRevoked(m.options.RevokedFile)
	if err == nil {
		m.setRoots(func() { m.revoked, m.unknownRevoked = revoked, false })
	}
	return err
}

// SetBundle sets the roots of the trust bundle that the control plane tells, in PEM; nil is none.
func (m *Manager) SetBundle(roots []byte) error {
	if len(roots) > 0 {
		if _, err := parsePEM(roots); err != nil {
			return fmt.Errorf("the trust bundle: %w", err)
		}
	}
	m.setRoots(func() { m.bundle = roots })
	return nil
}

// setRoots changes the roots, and puts them in force.
func (m *Manager) setRoots(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	all := m.mountedRoots
	if m.options.Mounted.Root == "" {
		all = union(m.fileRoots, m.issuedRoots, m.bundle)
	}
	if len(all) > 0 && !m.unknownRevoked {
		m.secrets.set(rootsName, rootsSecret(rootsName, all, m.revoked))
	}
}

// Certificate returns the workload's own certificate, or nil if there is none yet.
func (m *Manager) Certificate() *tls.Certificate { return m.pair.Load() }

// Stats returns the counts.
func (m *Manager) Stats() Stats {
	s := Stats{
		Requests: m.counts.requests.Load(), Failures: m.counts.failures.Load(), Refused: m.counts.refused.Load(),
	}
	if pair := m.pair.Load(); pair != nil && pair.Leaf != nil {
		s.Expires = pair.Leaf.NotAfter
	}
	return s
}
