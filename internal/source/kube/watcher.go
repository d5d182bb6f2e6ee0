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

// watcher keeps the sink up to date about one resource in one scope. It is one goroutine, which
// stops reading while the sink blocks.
type watcher struct {
	set          *watchSet
	source       *Source
	resource     *resource
	namespace    string // "" for all
	fingerprints *fingerprints
	reader       reader

	// version is the resource version up to which changes are known; empty when a list is needed.
	version string
	// served is the place of the requested API version in resource.versions.
	served int
	// listed is set once the first list was delivered, or need not be waited for. read is set if
	// there was one.
	listed, read bool
	// paged is set if the server cannot stream lists.
	paged bool
	// failures counts failed requests in a row. unhealthy is set while health knows of them.
	failures  int
	unhealthy bool
}

func newWatcher(t *watchSet, r *resource) *watcher {
	w := &watcher{
		set:          t,
		source:       t.source,
		resource:     r,
		namespace:    t.namespace,
		fingerprints: t.source.fingerprints.of(r),
		reader:       reader{resource: r, revisions: t.source.reads, seed: t.source.seed},
	}
	if r.namespace != "" {
		w.namespace = r.namespace
	}
	return w
}

// run works until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer w.source.health.forget(w)
	if w.resource.reported { // nothing that is served depends on it
		w.skipFirstList()
	}
	for ctx.Err() == nil {
		began := time.Now()
		err := w.follow(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil && time.Since(began) > minWatchDuration:
			w.failures = 0
		default:
			w.backOff(ctx, err)
		}
	}
}

// minWatchDuration is how long a watch must have lasted so that its end is no failure.
const minWatchDuration = time.Second

// errIncomplete reports a list that ended before it was complete.
var errIncomplete = errors.New("the API server ended the list before it was complete")

// follow makes one request and applies its events until it ends.
func (w *watcher) follow(ctx context.Context) error {
	if w.version == "" && w.paged {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	o := metav1.ListOptions{
		Watch:               true,
		AllowWatchBookmarks: true,
		ResourceVersion:     w.version,
		FieldSelector:       w.resource.watch.Fields,
		LabelSelector:       w.resource.labels,
		TimeoutSeconds:      watchTimeout(),
	}
	var p *listing
	if w.version == "" { // the most recent state, as a stream
		p = newListing()
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

// watchTimeout spreads the ends of watches over five minutes, so that they do not all begin again
// at the same time.
func watchTimeout() *int64 {
	seconds := int64(300 + rand.IntN(300))
	return &seconds
}

func (w *watcher) request(o metav1.ListOptions, accept string) *rest.Request {
	r := w.source.client.get(w.resource, w.resource.versions[w.served], w.namespace).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	if w.resource.metadataOnly() {
		r.SetHeader("Accept", accept)
	}
	return r
}

// drain applies the events of a stream. If p is not nil, those up to the end of the initial list
// belong to p.
func (w *watcher) drain(ctx context.Context, stream watch.Interface, p *listing) error {
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
			w.handle(event.Type == watch.Deleted, o, p)
		case p != nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			if !w.finishList(ctx, p) {
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

// recovered clears the reported failure once the watcher reads again.
func (w *watcher) recovered() {
	if w.unhealthy {
		w.unhealthy = false
		w.source.health.recovered(w)
	}
}

// handle applies one object.
func (w *watcher) handle(deleted bool, o metav1.Object, p *listing) {
	if w.resource.tags {
		w.handleTag(deleted, o, p)
		return
	}
	if w.resource.kind == "" {
		w.source.crds.notify(o.GetName())
		return
	}
	if w.set.excludes(o.GetNamespace()) {
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
	case e.fingerprint == 0:
		p.remove(e.key)
	default:
		p.add(e, w)
		w.deliverChunk(p)
	}
}

// chunkSize is how many changed objects of a first list are delivered before the list is complete.
const chunkSize = 128

// deliverChunk delivers the changes of a list so far, if there are chunkSize and nobody needs the
// list as one event.
func (w *watcher) deliverChunk(p *listing) {
	if w.set.initial && !w.listed && len(p.changed) >= chunkSize {
		w.set.deliver(func(into *source.Event) { w.apply(sortByKey(p.takeChanged()), into) })
	}
}

func (w *watcher) update(e entry) {
	result := "same"
	w.set.deliver(func(into *source.Event) {
		w.apply([]update{{e, time.Now()}}, into)
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

// finishList delivers a list. It returns false if ctx ended first.
func (w *watcher) finishList(ctx context.Context, p *listing) bool {
	if w.resource.tags {
		w.source.tags.replace(w.resource.Resource, p.tags)
		w.skipFirstList()
		return true
	}
	if w.resource.kind == "" {
		w.source.crds.setWatched(true)
		w.skipFirstList()
		return true
	}
	w.read = true
	fill := func(into *source.Event) { w.apply(p.updates(w), into) }
	if w.listed {
		w.set.deliver(fill)
		return true
	}
	w.listed = true
	return w.set.deliverFirst(ctx, fill)
}

// skipFirstList stops the watchSet from waiting for this watcher's first list.
func (w *watcher) skipFirstList() {
	if !w.listed {
		w.listed = true
		w.set.firstListDone()
	}
}

// pageSize is how many objects are requested at a time from a server that cannot stream lists.
const pageSize = 500

// list reads pages, for a server that cannot stream lists.
func (w *watcher) list(ctx context.Context) error {
	p := newListing()
	o := metav1.ListOptions{
		FieldSelector: w.resource.watch.Fields, LabelSelector: w.resource.labels, Limit: pageSize,
	}
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
				w.handle(false, o, p)
			}
			return err
		})
		if err != nil {
			return err
		}
		if o.Continue = m.GetContinue(); o.Continue == "" {
			if !w.finishList(ctx, p) {
				return ctx.Err()
			}
			w.version = m.GetResourceVersion()
			w.recovered()
			return nil
		}
	}
}
