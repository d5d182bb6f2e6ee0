package xdsproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Options are what a Proxy needs.
type Options struct {
	// Upstream is the connection to the control plane (wire.Upstream.Dial).
	Upstream *grpc.ClientConn
	Cache    CacheOptions
	// Hooks are the agent's own subscriptions.
	Hooks []Hook
	// Filters changes the resources of filters (ECDS) on their way to Envoy. It may be nil.
	Filters FilterRewriter
	// FilterRetry is after how long a filter that failed is tried again, at first; 0 for 5 s.
	FilterRetry time.Duration
	// Accepted is called once, when an Envoy has accepted clusters and listeners for the first
	// time. It may be nil.
	Accepted func()
	Log      *slog.Logger
	Now      func() time.Time
}

// CacheOptions say where the last configuration is kept.
type CacheOptions struct {
	// File is made for the agent's own user alone. Empty means that nothing is kept.
	File string
	// Node is the id of the Envoy. What is kept for another one is dropped.
	Node string
	// MaxBytes of configuration are kept; nothing is of a larger one. The file may have twice that
	// and a megabyte more.
	MaxBytes int64
}

// Proxy passes discovery on.
type Proxy struct {
	options Options
	cache   *cache
	hooks   []*subscriber
	counts  counters

	mu sync.Mutex
	// newest ends the newest stream, ended is closed when it has ended.
	newest context.CancelFunc
	ended  chan struct{}
	// backoff is between attempts to open a stream to the control plane.
	backoff wire.Backoff

	acceptance acceptance
	health     health
}

// The counters of Istio's agent have the same names.
type counters struct {
	requests, responses, failures, terminations, envoyTerminations atomic.Int64
	refusedFilters                                                 atomic.Int64
	connected                                                      atomic.Bool
}

// Stats are counts since the start.
type Stats struct {
	// Connected says that a stream to the control plane is open and has had a response.
	Connected bool
	// Requests of Envoy were passed on (xds_proxy_requests), and Responses to it
	// (xds_proxy_responses).
	Requests, Responses int64
	// UpstreamFailures are streams to the control plane that had no response
	// (istiod_connection_failures), UpstreamTerminations those that ended later
	// (istiod_connection_terminations), EnvoyTerminations streams that Envoy has ended
	// (envoy_connection_terminations).
	UpstreamFailures, UpstreamTerminations, EnvoyTerminations int64
	// RefusedFilters are filters that Envoy has refused after the agent has changed them.
	RefusedFilters int64
}

// New returns a Proxy. It reads the last configuration, and gives Hooks what it has of theirs.
func New(o Options) *Proxy {
	p := &Proxy{options: o, backoff: wire.Backoff{Base: time.Second, Max: 15 * time.Second}}
	p.acceptance.then = o.Accepted
	var err error
	if p.cache, err = openCache(o.Cache, o.Now); err != nil {
		o.Log.Warn("the last configuration cannot be used", "file", o.Cache.File, "error", err)
	}
	for _, h := range o.Hooks {
		s := &subscriber{Hook: h, versions: map[string]string{}}
		p.hooks = append(p.hooks, s)
		p.restore(s)
	}
	p.restoreFilters()
	return p
}

// restoreFilters tells which filters an Envoy may get that starts without the control plane.
func (p *Proxy) restoreFilters() {
	if p.options.Filters == nil {
		return
	}
	err := p.cache.each(typeurl.Filter, func(string) bool { return true }, func(r record) {
		if i, err := readItem(r.body, true); err == nil {
			p.options.Filters.Given(bytesOf(i.body))
		}
	})
	if err != nil {
		p.options.Log.Warn("the last configuration cannot be used", "type", typeurl.Filter, "error", err)
	}
}

// restore gives a Hook what the cache has.
func (p *Proxy) restore(s *subscriber) {
	var u Update
	err := p.cache.each(s.TypeURL, func(string) bool { return true }, func(r record) {
		i, err := readItem(r.body, true)
		if err == nil {
			u.Resources = append(u.Resources, Resource{Name: i.name, Version: i.version, Body: bytesOf(i.body)})
		}
	})
	if err == nil && len(u.Resources) > 0 {
		s.remember(u, "")
		u.Whole = true
		err = s.Apply(u)
	}
	if err != nil {
		p.options.Log.Warn("the last configuration cannot be used", "type", s.TypeURL, "error", err)
	}
}

// Serve serves Envoy until ctx ends, and then returns nil.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	err := wire.Service{
		Name: serviceName, Delta: deltaMethod, StateOfTheWorld: wholeMethod, Handle: p.handle,
	}.Serve(ctx, l)
	return errors.Join(err, p.cache.close())
}

const (
	serviceName = "envoy.service.discovery.v3.AggregatedDiscoveryService"
	deltaMethod = "DeltaAggregatedResources"
	wholeMethod = "StreamAggregatedResources"
)

// open opens a stream to the control plane.
func (p *Proxy) open(ctx context.Context, v *wire.Variant) (grpc.ClientStream, error) {
	method := wholeMethod
	if v.Delta {
		method = deltaMethod
	}
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	return p.options.Upstream.NewStream(ctx, both, "/"+serviceName+"/"+method)
}

// handle serves a stream of Envoy. There is one at a time: the last configuration is that of one
// Envoy. A new stream ends an older one.
func (p *Proxy) handle(v *wire.Variant, down grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(down.Context())
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	p.mu.Lock()
	before, cancelBefore := p.ended, p.newest
	p.newest, p.ended = cancel, ended
	p.mu.Unlock()
	if before != nil {
		cancelBefore()
		<-before
	}
	p.cache.begin()
	s := &stream{proxy: p, v: v, down: down, requests: make(chan *wire.Message)}
	defer s.release()
	defer p.acceptance.streamEnded()
	return s.run(ctx)
}

// Accepted reports whether an Envoy has accepted clusters and listeners.
func (p *Proxy) Accepted() bool { return p.acceptance.isDone() }

// Stats returns the counts.
func (p *Proxy) Stats() Stats {
	return Stats{
		Connected:            p.counts.connected.Load(),
		Requests:             p.counts.requests.Load(),
		Responses:            p.counts.responses.Load(),
		UpstreamFailures:     p.counts.failures.Load(),
		UpstreamTerminations: p.counts.terminations.Load(),
		EnvoyTerminations:    p.counts.envoyTerminations.Load(),
		RefusedFilters:       p.counts.refusedFilters.Load(),
	}
}
