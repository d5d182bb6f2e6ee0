package xdsproxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// FilterRewriter changes resources of filters, encoded TypedExtensionConfigs, before Envoy gets
// them. Its methods may be called at the same time.
type FilterRewriter interface {
	// Fetches reports whether a resource is to be changed.
	Fetches(resource []byte) bool
	// Rewrite returns what Envoy gets: the same of a resource that is not to be changed. With an
	// error that is what stands for the resource until it can be had, or nil: it is tried again.
	Rewrite(ctx context.Context, resource []byte) ([]byte, error)
	// Given is told of each resource that Envoy gets, or may get from what is kept for a start
	// without the control plane.
	Given(resource []byte)
	// Gone is told of each filter that Envoy has no longer.
	Gone(name string)
}

// filterQueue passes filters on. What is to be changed is taken out of its response and follows in
// one of the agent's own: the rest of the response, and later ones, do not wait for it.
//
// Until then Envoy has of that filter what it had before. If that is nothing, it holds the listener
// and, after the time that it waits for any resource, uses the default that the listener has: that
// of a filter which fails closed refuses all, as Envoy does where there is no default.
//
// In the state of the world a response cannot be divided, so that the stream waits. The agent's
// bootstrap has the other variant.
type filterQueue struct {
	*relay
	ctx context.Context //nolint:containedctx // of the relay
	// cancel ends the relay when Envoy cannot be reached.
	cancel  func()
	running sync.WaitGroup

	// order is held while Envoy is sent filters, so that none takes the place of a newer one.
	order sync.Mutex
	sent  int // responses of the agent's own

	mu sync.Mutex
	// late are the filters that Envoy has not got yet, by name.
	late map[string]*lateFilter
}

// lateFilter is a filter that follows its response.
type lateFilter struct {
	name     string
	resource []byte // discovery.v3.Resource
	// replaced is closed when another one, or none, takes its place.
	replaced chan struct{}
}

const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
	// isFallback ends the version of what stands for a resource. The control plane does not know
	// it, so that it sends the resource again when Envoy reports it on another stream.
	isFallback = "+fallback"
	// ownNonce begins the nonces of responses that the agent makes itself.
	ownNonce = "lateen-agent/"
)

// newFilterQueue returns one that works until ctx ends. Then running is to be waited for.
func newFilterQueue(ctx context.Context, cancel func(), r *relay) *filterQueue {
	return &filterQueue{relay: r, ctx: ctx, cancel: cancel, late: map[string]*lateFilter{}}
}

// take passes on what a response has for Envoy now.
func (q *filterQueue) take(p response, m *wire.Message) error {
	q.order.Lock()
	defer q.order.Unlock()
	if !q.v.Delta {
		return q.takeWhole(p, m)
	}
	var named []string
	var late []*lateFilter // by resource; nil for what does not wait
	err := resourcesOf(q.v, m, p, func(i item) {
		named = append(named, i.name)
		var of *lateFilter
		if q.proxy.options.Filters.Fetches(bytesOf(i.body)) {
			of = &lateFilter{name: i.name, resource: bytesOf(i.whole), replaced: make(chan struct{})}
		}
		late = append(late, of)
	}, func(name string) { named = append(named, name) })
	if err != nil {
		return q.deliver(p, m) // Envoy refuses it
	}
	begun := q.replace(named, late)
	if slices.ContainsFunc(late, func(f *lateFilter) bool { return f != nil }) {
		m = without(m, q.v.Resources, late)
	}
	if err := q.give(p, m); err != nil {
		return err
	}
	for _, f := range begun {
		q.running.Go(func() { q.bring(f) })
	}
	return nil
}

// replace forgets what the names of a response have stood for. It returns which filters are new:
// one that is there already goes on.
func (q *filterQueue) replace(names []string, late []*lateFilter) (begun []*lateFilter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	goOn := map[string]bool{}
	for _, f := range late {
		if f == nil {
			continue
		}
		if before := q.late[f.name]; before != nil && bytes.Equal(before.resource, f.resource) {
			goOn[f.name] = true
			continue
		}
		begun = append(begun, f)
	}
	for _, name := range names {
		if !goOn[name] {
			q.forget(name)
		}
	}
	for _, f := range begun {
		q.forget(f.name)
		q.late[f.name] = f
	}
	return begun
}

// forget has a filter follow no more. mu is held.
func (q *filterQueue) forget(name string) {
	if f := q.late[name]; f != nil {
		close(f.replaced)
		delete(q.late, name)
	}
}

// isLate reports whether Envoy is still to get a filter, and takes it out if that is done.
func (q *filterQueue) isLate(f *lateFilter, done bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := q.late[f.name] == f && q.ctx.Err() == nil
	if is && done {
		delete(q.late, f.name)
	}
	return is
}

// saw takes in which filters Envoy does not want any more.
func (q *filterQueue) saw(m *wire.Message) {
	q.v.Visit(m, wire.Visitor{
		Asked: func([]byte) {}, Reported: func([]byte) {},
		Unsubscribed: func(name []byte) {
			q.mu.Lock()
			q.forget(string(name))
			q.mu.Unlock()
			q.proxy.options.Filters.Gone(string(name))
		},
	})
}

// bring gives Envoy a filter when it can be had, and what stands for it when it cannot the first
// time. What it waits between attempts depends on no other filter.
func (q *filterQueue) bring(f *lateFilter) {
	pause := cmp.Or(q.proxy.options.FilterRetry, firstRetry)
	for attempt := 1; ; attempt++ {
		out, failure := q.rewrite(f.resource)
		if out != nil && (failure == nil || attempt == 1) {
			if err := q.follow(f, out, failure == nil); err != nil {
				q.cancel()
				return
			}
		}
		if failure == nil || !q.isLate(f, false) {
			return
		}
		q.told(failure)
		select {
		case <-q.ctx.Done():
			return
		case <-f.replaced:
			return
		case <-time.After(pause):
			pause = min(2*pause, lastRetry)
		}
	}
}

// follow sends Envoy a filter, discovery.v3.Resource, unless a newer one has taken its place.
func (q *filterQueue) follow(f *lateFilter, resource []byte, done bool) error {
	q.order.Lock()
	defer q.order.Unlock()
	if !q.isLate(f, done) {
		return nil
	}
	q.sent++
	b := wire.AppendBytes(nil, q.v.Resources, resource)
	b = wire.AppendString(b, q.v.ResponseType, typeurl.Filter)
	b = wire.AppendString(b, q.v.Nonce, ownNonce+strconv.Itoa(q.sent))
	m := wire.Bytes(b)
	p, err := readResponse(q.v, m)
	if err != nil {
		return err
	}
	return q.give(p, m)
}

// give passes a response of filters on to Envoy.
func (q *filterQueue) give(p response, m *wire.Message) error {
	of := q.proxy.options.Filters
	// Envoy says what is wrong with it.
	_ = resourcesOf(q.v, m, p, func(i item) { of.Given(bytesOf(i.body)) }, of.Gone)
	return q.deliver(p, m)
}

// rewrite returns what Envoy gets of a discovery.v3.Resource, nil if there is nothing. With an
// error that stands for what cannot be had.
func (q *filterQueue) rewrite(in []byte) (out []byte, failure error) {
	hasAny := false
	out, err := eachField(in, resourceBody, func(packed []byte) ([]byte, error) {
		return eachField(packed, anyValue, func(value []byte) ([]byte, error) {
			value, failure = q.proxy.options.Filters.Rewrite(q.ctx, value)
			hasAny = value != nil
			return value, nil
		})
	})
	if failure != nil && err == nil {
		out, err = eachField(out, resourceVersion, func(version []byte) ([]byte, error) {
			return append(slices.Clone(version), isFallback...), nil
		})
	}
	if err != nil || !hasAny {
		return nil, errors.Join(failure, err)
	}
	return out, failure
}

// takeWhole passes on a response of the state of the world.
func (q *filterQueue) takeWhole(p response, m *wire.Message) error {
	body, err := eachField(m.Data.Materialize(), q.v.Resources, func(packed []byte) ([]byte, error) {
		return eachField(packed, anyValue, func(value []byte) ([]byte, error) {
			if !q.proxy.options.Filters.Fetches(value) {
				return value, nil
			}
			out, failure := q.proxy.options.Filters.Rewrite(q.ctx, value)
			q.told(failure)
			return out, nil
		})
	})
	if err != nil {
		return q.deliver(p, m) // Envoy refuses it
	}
	return q.give(p, wire.Bytes(body))
}

// told logs why a resource cannot be had.
func (q *filterQueue) told(err error) {
	if err != nil && q.ctx.Err() == nil {
		q.proxy.options.Log.Error("a filter is not in force: one that accepts or refuses all is in its place",
			"error", err)
	}
}
