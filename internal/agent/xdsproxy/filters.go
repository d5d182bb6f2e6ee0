package xdsproxy

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// FilterRewriter changes resources of filters, encoded TypedExtensionConfigs, before Envoy gets
// them.
type FilterRewriter interface {
	// Fetches reports whether a resource is to be changed.
	Fetches(resource []byte) bool
	// Rewrite returns what Envoy gets: the same of a resource that is not to be changed. With an
	// error that is what stands for the resource until it can be had: it is tried again.
	Rewrite(ctx context.Context, resource []byte) ([]byte, error)
}

// filterQueue has the responses of filters wait until they are rewritten, in the order in which
// they came. Other types go past them.
type filterQueue struct {
	*relay
	ctx context.Context //nolint:containedctx // of the relay
	// waiting has a place for each response of a control plane that waits for answers. One that
	// sends more loses the stream.
	waiting chan *wire.Message

	mu sync.Mutex
	// behind is how many responses wait or are rewritten.
	behind int

	// The rest is the worker's. failed are resources, discovery.v3.Resource, that are tried again,
	// by name.
	failed map[string][]byte
	pause  time.Duration
	sent   int
}

const (
	maxWaitingFilters = 64
	firstRetry        = 5 * time.Second
	lastRetry         = 5 * time.Minute
	// isFallback ends the version of what stands for a resource. The control plane does not know
	// it, so that it sends the resource again when Envoy reports it on another stream.
	isFallback = "+fallback"
	// ownNonce begins the nonces of responses that the agent makes itself.
	ownNonce = "lateen-agent/"
)

func newFilterQueue(r *relay) *filterQueue {
	return &filterQueue{
		relay: r, waiting: make(chan *wire.Message, maxWaitingFilters), failed: map[string][]byte{},
	}
}

// start runs the worker until ctx ends, which it has done when the channel is closed. The worker
// cancels the relay when Envoy cannot be reached.
func (q *filterQueue) start(ctx context.Context, cancel func()) (done chan struct{}) {
	q.ctx, done = ctx, make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		q.work()
	}()
	return done
}

// take passes a response on, or has it wait.
func (q *filterQueue) take(p response, m *wire.Message) error {
	q.mu.Lock()
	idle := q.behind == 0
	q.mu.Unlock()
	if idle && !q.concerns(p, m) {
		return q.deliver(p, m)
	}
	select {
	case q.waiting <- m.Copy():
		q.add(1)
		return nil
	default:
		return status.Error(codes.ResourceExhausted, "the control plane sends filters faster than their modules come")
	}
}

func (q *filterQueue) add(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.behind += n
}

// concerns reports whether a response has something to be rewritten, or about what failed.
func (q *filterQueue) concerns(p response, m *wire.Message) (any bool) {
	err := resourcesOf(q.v, m, p, func(i item) {
		any = any || q.proxy.options.Filters.Fetches(bytesOf(i.body))
	}, func(string) {})
	return any && err == nil
}

func (q *filterQueue) work() {
	retry := time.NewTimer(lastRetry)
	defer retry.Stop()
	for {
		if len(q.failed) > 0 {
			retry.Reset(q.pause)
		} else {
			q.pause = cmp.Or(q.proxy.options.FilterRetry, firstRetry)
			retry.Stop()
		}
		var err error
		select {
		case <-q.ctx.Done():
			return
		case m := <-q.waiting:
			err = q.rewrite(m)
			m.Free()
			q.add(-1)
		case <-retry.C:
			q.pause = min(2*q.pause, lastRetry)
			err = q.again()
		}
		if err != nil {
			return
		}
	}
}

// rewrite rewrites a response and passes it on.
func (q *filterQueue) rewrite(m *wire.Message) error {
	p, err := readResponse(q.v, m)
	if err != nil {
		return err
	}
	_ = resourcesOf(q.v, m, p, func(i item) { delete(q.failed, i.name) }, func(name string) { delete(q.failed, name) })
	body, err := eachField(m.Data.Materialize(), q.v.Resources, q.resource)
	if err != nil {
		return err
	}
	return q.deliver(p, wire.Bytes(body))
}

// resource rewrites what a response has of a resource.
func (q *filterQueue) resource(in []byte) ([]byte, error) {
	var failure error
	rewrite := func(value []byte) ([]byte, error) {
		out, err := q.proxy.options.Filters.Rewrite(q.ctx, value)
		failure = err
		return out, nil
	}
	if !q.v.Delta {
		out, err := eachField(in, anyValue, rewrite)
		q.told(failure)
		return out, err
	}
	out, err := eachField(in, resourceBody, func(packed []byte) ([]byte, error) {
		return eachField(packed, anyValue, rewrite)
	})
	if failure != nil && err == nil {
		if i, err := readItem(wire.Bytes(in).Reader(), true); err == nil {
			q.failed[i.name] = in
		}
		out, err = eachField(out, resourceVersion, func(version []byte) ([]byte, error) {
			return append(slices.Clone(version), isFallback...), nil
		})
	}
	q.told(failure)
	return out, err
}

// told logs why a resource cannot be had.
func (q *filterQueue) told(err error) {
	if err != nil && q.ctx.Err() == nil {
		q.proxy.options.Log.Error("a filter is not in force: one that accepts or refuses all is in its place",
			"error", err)
	}
}

// again tries what failed, and sends Envoy what has come of it.
func (q *filterQueue) again() error {
	var b []byte
	for name, in := range q.failed {
		delete(q.failed, name)
		out, err := q.resource(in)
		if err != nil {
			return err
		}
		if q.failed[name] == nil {
			b = wire.AppendBytes(b, q.v.Resources, out)
		}
	}
	if len(b) == 0 {
		return nil
	}
	q.sent++
	b = wire.AppendString(b, q.v.ResponseType, typeurl.Filter)
	b = wire.AppendString(b, q.v.Nonce, ownNonce+strconv.Itoa(q.sent))
	m := wire.Bytes(b)
	p, err := readResponse(q.v, m)
	if err != nil {
		return err
	}
	return q.deliver(p, m)
}

func isOwnNonce(nonce string) bool { return strings.HasPrefix(nonce, ownNonce) }

// passRest passes on what a request says beside its answer to a response of the agent's own.
func (r *relay) passRest(m *wire.Message) error {
	var rest []byte
	asks := false
	for in := m.Data.Materialize(); len(in) > 0; {
		number, _, n := protowire.ConsumeField(in)
		if n < 0 {
			return status.Error(codes.InvalidArgument, wire.ErrMalformed.Error())
		}
		asks = asks || number == r.v.Names || number == r.v.Unsubscribe
		if number != r.v.Ack && number != r.v.Refusal {
			rest = append(rest, in[:n]...)
		}
		in = in[n:]
	}
	if !asks {
		return nil
	}
	r.proxy.counts.requests.Add(1)
	return ignoreEOF(r.up.SendMsg(wire.Bytes(rest)))
}

// eachField returns a message in which each field of a number, which has bytes, is replaced.
func eachField(in []byte, number protowire.Number, by func([]byte) ([]byte, error)) ([]byte, error) {
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		found, kind, n := protowire.ConsumeField(in)
		if n < 0 {
			return nil, wire.ErrMalformed
		}
		if found != number || kind != protowire.BytesType {
			out, in = append(out, in[:n]...), in[n:]
			continue
		}
		_, _, head := protowire.ConsumeTag(in)
		value, _ := protowire.ConsumeBytes(in[head:])
		replaced, err := by(value)
		if err != nil {
			return nil, err
		}
		out, in = wire.AppendBytes(out, number, replaced), in[n:]
	}
	return out, nil
}
