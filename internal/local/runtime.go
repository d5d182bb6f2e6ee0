package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Runtime runs what a source declares. It is a source itself: it delivers the upstream's events
// with Pods and EndpointSlices added. Its methods are safe for concurrent use. It runs once.
type Runtime struct {
	opts     Options
	upstream source.Source
	snapshot atomic.Pointer[Snapshot]
	// changed is closed and replaced with each snapshot.
	mu      sync.Mutex
	changed chan struct{}
}

// New returns a runtime for what the upstream declares. Nothing starts before Run.
func New(upstream source.Source, opts Options) (*Runtime, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts, err := opts.absolute()
	if err != nil {
		return nil, err
	}
	r := &Runtime{opts: opts.withDefaults(), upstream: upstream, changed: make(chan struct{})}
	r.snapshot.Store(&Snapshot{})
	return r, nil
}

// Snapshot returns the present state.
func (r *Runtime) Snapshot() *Snapshot { return r.snapshot.Load() }

// Await returns the first snapshot for which the condition holds, or the context's error.
func (r *Runtime) Await(ctx context.Context, condition func(*Snapshot) bool) (*Snapshot, error) {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if s := r.Snapshot(); condition(s) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return r.Snapshot(), ctx.Err()
		case <-changed:
		}
	}
}

// settlePoll is the pause between two calls of Options.Settled.
const settlePoll = 50 * time.Millisecond

// Settle waits until every ready Envoy has accepted configuration that covers all that was
// delivered before. It waits also for an Envoy that is disconnected because the control plane has
// died. It fails only with the context. Without Options.Settled it returns at once.
func (r *Runtime) Settle(ctx context.Context) error {
	if r.opts.Settled == nil {
		return nil
	}
	for {
		settled, err := r.opts.Settled(ctx)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		lags := func(proxy string) bool { return !slices.Contains(settled, proxy) }
		if err == nil && !slices.ContainsFunc(r.Snapshot().proxies(), lags) {
			return nil
		}
		if !sleep(ctx, settlePoll) {
			return ctx.Err()
		}
	}
}

func (r *Runtime) publish(s *Snapshot) {
	r.snapshot.Store(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Run implements source.Source. It returns when the context has ended or the upstream has failed,
// and everything that it started has ended.
func (r *Runtime) Run(ctx context.Context, sink source.Sink) error {
	unlock, err := r.prepareState()
	if err != nil {
		return err
	}
	defer unlock()

	spawnCtx, stopSpawner := context.WithCancel(context.WithoutCancel(ctx))
	spawner := newSpawner()
	var spawning sync.WaitGroup
	spawning.Go(func() { spawner.run(spawnCtx) })
	defer spawning.Wait()
	defer stopSpawner()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := newLoop(ctx, r, sink, spawner)
	upstream := make(chan error, 1)
	go func() {
		err := r.upstream.Run(ctx, func(e source.Event) {
			select {
			case l.events <- e:
			case <-ctx.Done():
			}
		})
		upstream <- err
		if err != nil {
			cancel()
		}
	}()
	l.run(ctx)
	cancel()
	return <-upstream
}

// prepareState locks the state directory, and removes what an earlier run left in it.
func (r *Runtime) prepareState() (unlock func(), err error) {
	if err := os.MkdirAll(r.opts.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(r.opts.StateDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("state directory %s is in use by another lateen", r.opts.StateDir)
		}
		return nil, fmt.Errorf("state directory %s: %w", r.opts.StateDir, err)
	}
	if err := os.RemoveAll(filepath.Join(r.opts.StateDir, "pods")); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}
