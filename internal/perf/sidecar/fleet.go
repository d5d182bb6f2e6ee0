package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Fleet runs sidecars in this process. Its methods are safe for concurrent use.
type Fleet struct {
	options Options
	targets []target
	loops   []*loop
	started atomic.Int64
	number  atomic.Uint64 // how many sidecars were ever started

	handshakes sync.WaitGroup // TLS handshakes under way

	mu      sync.Mutex
	waiting chan struct{} // closed and replaced when counts of sidecars change
}

// target is an address of the control plane.
type target struct {
	name     string
	address  netip.AddrPort
	preamble []byte // the first bytes of a connection without a token
}

// New starts a fleet without sidecars. It fails if an address or the metadata is invalid, and on
// systems without epoll.
func New(o Options) (*Fleet, error) {
	f := &Fleet{options: o.orDefaults(), waiting: make(chan struct{})}
	if _, err := encodeNode(&o.Mesh, &Identity{}); err != nil {
		return nil, err
	}
	if len(o.Targets) == 0 {
		return nil, fmt.Errorf("no address of a control plane is given; want one as 127.0.0.1:15010")
	}
	for _, name := range o.Targets {
		tcp, err := net.ResolveTCPAddr("tcp", name)
		if err != nil {
			return nil, fmt.Errorf("the address of the control plane: %w", err)
		}
		a := tcp.AddrPort()
		f.targets = append(f.targets, target{
			name: name, address: netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), preamble: f.preambleFor(name, ""),
		})
	}
	for range f.options.Loops {
		l, err := newLoop(f)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.loops = append(f.loops, l)
		go l.run()
	}
	return f, nil
}

// Envoy's defaults.
const (
	envoyWindow       = 16 << 20
	envoyFetchTimeout = 15 * time.Second
	envoyBackoffBase  = 500 * time.Millisecond
	envoyBackoffMax   = 30 * time.Second
)

func (o Options) orDefaults() Options {
	if o.Loops <= 0 {
		o.Loops = min(runtime.GOMAXPROCS(0), 4)
	}
	if o.Window == 0 {
		o.Window = envoyWindow
	}
	o.Window = min(o.Window, maxWindow)
	if o.FetchTimeout == 0 {
		o.FetchTimeout = envoyFetchTimeout
	}
	if o.Backoff.Base == 0 {
		o.Backoff.Base = envoyBackoffBase
	}
	if o.Backoff.Max == 0 {
		o.Backoff.Max = envoyBackoffMax
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// after returns the wait after so many attempts without a response. drawn is a random number of [0,
// 1).
func (b Backoff) after(attempts int, drawn float64) time.Duration {
	limit := b.Base
	for range attempts {
		if limit *= 2; limit >= b.Max {
			break
		}
	}
	return time.Duration(drawn * float64(min(limit, b.Max)))
}

func (f *Fleet) preambleFor(authority, token string) []byte {
	scheme := "http"
	if f.options.TLS != nil {
		scheme = "https"
	}
	return preamble(f.options.Window, requestFields(scheme, authority, f.options.Protocol, token))
}

// Start adds a sidecar, which connects at once. The caller limits the rate of calls.
func (f *Fleet) Start(id Identity, m Faults) *Sidecar {
	number := f.number.Add(1) - 1
	s := &Sidecar{loop: f.loops[number%uint64(len(f.loops))], identity: &id, number: number, socket: -1}
	if m != (Faults{}) {
		s.faults = &m
	}
	if f.options.Protocol == StateOfTheWorld {
		s.sotw = &[NumTypes]sotwState{}
	}
	f.started.Add(1)
	s.loop.post(func() {
		s.loop.sidecars[s] = struct{}{}
		s.forget()
		s.connect()
	})
	return s
}

// Stats returns the present counts.
func (f *Fleet) Stats() Stats {
	all := Stats{Started: int(f.started.Load())}
	for _, l := range f.loops {
		l.mu.Lock()
		all.add(&l.published)
		l.mu.Unlock()
	}
	return all
}

// awaitEvery is how often Await checks its condition when the number of synced sidecars does not
// change.
const awaitEvery = 50 * time.Millisecond

// Await waits until a condition holds, or returns ctx's error when ctx ends first. It checks the
// condition when the number of connected or synced sidecars changes, and every 50 ms.
func (f *Fleet) Await(ctx context.Context, condition func(Stats) bool) error {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		f.mu.Lock()
		changed := f.waiting
		f.mu.Unlock()
		if condition(f.Stats()) {
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Fleet) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.waiting)
	f.waiting = make(chan struct{})
}

// Close stops all sidecars and waits until their sockets are closed. Start must not be called
// afterwards.
func (f *Fleet) Close() {
	for _, l := range f.loops {
		l.close()
	}
	f.handshakes.Wait()
}
