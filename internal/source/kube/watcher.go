package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// watcher keeps the sink up to date about one resource in one scope. It is one goroutine, which reads no further while the sink
// blocks.
type watcher struct {
	set       *set
	source    *Source
	resource  *resource
	namespace string // "" for all
	prints    *prints
	reader    reader

	// version is the resource version that is known; empty when a list is needed.
	version string
	// listed tells that the first list was delivered, or need not be waited for; read tells that there was one.
	listed, read bool
	// paged tells that the server cannot stream lists.
	paged bool
	// failures in a row, and whether health was told of them.
	failures int
	sick     bool
}

func newWatcher(t *set, r *resource) *watcher {
	w := &watcher{
		set: t, source: t.source, resource: r, namespace: t.namespace, prints: t.source.prints[r],
		reader: reader{resource: r, revision: t.source.o.Revision, seed: t.source.seed},
	}
	if r.namespace != "" {
		w.namespace = r.namespace
	}
	return w
}

// run works until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer w.source.health.forget(w)
	for ctx.Err() == nil {
		began := time.Now()
		err := w.follow(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil && time.Since(began) > steady:
			w.failures = 0
		default:
			w.failed(ctx, err)
		}
	}
}

// steady is how long a watch must have lasted not to count as a failure when it ends.
const steady = time.Second

// errIncomplete is a list that ended before it was all there.
var errIncomplete = errors.New("the API server ended the list before it was complete")

// follow makes one request, and applies what it yields until that ends.
func (w *watcher) follow(ctx context.Context) error {
	if w.version == "" && w.paged {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	o := metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: w.version, FieldSelector: w.resource.watch.Fields, TimeoutSeconds: watchTimeout(),
	}
	var p *pass
	if w.version == "" { // the most recent state, as a stream
		p = newPass()
		initial := true
		o.SendInitialEvents, o.ResourceVersionMatch = &initial, metav1.ResourceVersionMatchNotOlderThan
	}
	stream, err := w.request(o, metadataOnly).Watch(ctx)
	if err != nil {
		if p != nil && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
			w.paged = true
			return w.follow(ctx)
		}
		return err
	}
	defer stream.Stop()
	if p == nil { // what is known is being kept up, though its first event may be long in coming
		w.recovered()
	}
	return w.drain(ctx, stream, p)
}

// watchTimeout spreads the ends of watches over five minutes, so that they do not begin again together.
func watchTimeout() *int64 {
	seconds := int64(300 + rand.IntN(300))
	return &seconds
}

func (w *watcher) request(o metav1.ListOptions, accept string) *rest.Request {
	r := w.source.client.get(w.resource, w.namespace).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	if w.resource.kind == "" {
		r.SetHeader("Accept", accept)
	}
	return r
}

// drain applies the events of a stream; those up to the end of the initial ones belong to p, if that is not nil.
func (w *watcher) drain(ctx context.Context, stream watch.Interface, p *pass) error {
	for {
		var event watch.Event
		var open bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open = <-stream.ResultChan():
		}
		if !open {
			if p != nil {
				return errIncomplete
			}
			return nil
		}
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		o, err := meta.Accessor(event.Object)
		if err != nil {
			return err
		}
		version := o.GetResourceVersion()
		switch {
		case event.Type != watch.Bookmark:
			w.take(event.Type == watch.Deleted, o, p)
		case p != nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			if !w.finish(ctx, p) {
				return ctx.Err()
			}
			p = nil
		}
		if p == nil {
			w.version = version
			w.recovered()
		}
	}
}

// recovered is called when the watcher reads.
func (w *watcher) recovered() {
	if w.sick {
		w.sick = false
		w.source.health.well(w)
	}
}

// take applies one object.
func (w *watcher) take(deleted bool, o metav1.Object, p *pass) {
	if w.resource.kind == "" {
		w.source.board.poke(o.GetName())
		return
	}
	if w.set.ignores(o.GetNamespace()) {
		w.count("ignored")
		return
	}
	e, ours := w.reader.read(o)
	if deleted || !ours {
		e = entry{key: w.reader.keyOf(o)}
	}
	switch {
	case p == nil:
		w.update(e)
	case e.print == 0:
		p.remove(e.key)
	default:
		p.add(e, w)
		w.deliverPortion(p)
	}
}

// portion is how many objects of a first list are delivered before it is complete.
const portion = 128

// deliverPortion delivers what a list has changed so far, if that is much and nobody needs it whole.
func (w *watcher) deliverPortion(p *pass) {
	if w.set.initial && !w.listed && len(p.changed) >= portion {
		w.set.deliver(func(into *source.Event) { w.apply(inOrder(p.take()), into) })
	}
}

func (w *watcher) update(e entry) {
	result := "same"
	w.set.deliver(func(into *source.Event) {
		w.apply([]step{{e, time.Now()}}, into)
		if len(into.Changes)+len(into.Reports) > 0 {
			result = "used"
		}
	})
	w.count(result)
}

func (w *watcher) count(result string) {
	m := w.source.o.Metrics
	m.Watched.WithLabelValues(string(w.resource.kind), result).Inc()
	if w.resource.watch.CountsSame && result == "same" {
		m.RegistryEvents.WithLabelValues(kinds.Of(w.resource.kind).RegistryType, "updatesame").Inc()
	}
}

// finish delivers a list; false if ctx ended before.
func (w *watcher) finish(ctx context.Context, p *pass) bool {
	if w.resource.kind == "" {
		w.source.board.live(true)
		w.skip()
		return true
	}
	w.read = true
	fill := func(into *source.Event) { w.apply(p.steps(w), into) }
	if w.listed {
		w.set.deliver(fill)
		return true
	}
	w.listed = true
	return w.set.arrive(ctx, fill)
}

// skip lets nobody wait for the first list.
func (w *watcher) skip() {
	if !w.listed {
		w.listed = true
		w.set.drop()
	}
}

// pageSize is how many objects a server without streaming lists is asked for at a time.
const pageSize = 500

// list reads pages, from a server that cannot stream lists.
func (w *watcher) list(ctx context.Context) error {
	p := newPass()
	o := metav1.ListOptions{FieldSelector: w.resource.watch.Fields, Limit: pageSize}
	for {
		page, err := w.request(o, metadataList).Do(ctx).Get()
		if err != nil {
			return err
		}
		m, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		err = meta.EachListItemWithAlloc(page, func(item runtime.Object) error {
			o, err := meta.Accessor(item)
			if err == nil {
				w.take(false, o, p)
			}
			return err
		})
		if err != nil {
			return err
		}
		if o.Continue = m.GetContinue(); o.Continue == "" {
			if !w.finish(ctx, p) {
				return ctx.Err()
			}
			w.version = m.GetResourceVersion()
			w.recovered()
			return nil
		}
	}
}
