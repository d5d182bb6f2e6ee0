package kube

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// failed decides what the end of a request means, and waits before the next one. A nil error is a watch that ended at once.
func (w *watcher) failed(ctx context.Context, err error) {
	longest := retryAtMost
	switch {
	case err == nil:
	case expired(err):
		w.version = "" // what happened since is found by a list
		if w.failures == 0 {
			w.failures = 1
			return
		}
	case apierrors.IsNotFound(err) && w.resource.custom:
		w.version = ""
		w.absent(ctx)
		return
	default:
		w.source.o.Metrics.SyncErrors.WithLabelValues(w.source.o.Cluster).Inc()
		if refused(err) {
			longest = refusedAtMost
			if w.resource.kind == "" {
				w.source.board.live(false)
			}
			if w.resource.watch.Optional {
				w.skip()
			}
		}
		w.sick = true
		w.source.health.ill(w, err)
	}
	w.failures++
	sleep(ctx, pause(w.failures, longest), nil)
}

// How long is waited between attempts: at least, at most, at most for what may not be read, and at most for a resource that does
// not exist while CustomResourceDefinitions can be watched, and while they cannot.
const (
	retryAtLeast    = 100 * time.Millisecond
	retryAtMost     = 5 * time.Second
	refusedAtMost   = 30 * time.Second
	absentAtMost    = 5 * time.Minute
	unknownCRDsMost = 15 * time.Second
)

// pause doubles with each failure; half of it is random, so that not all come back together.
func pause(failures int, longest time.Duration) time.Duration {
	d := min(retryAtLeast<<min(failures-1, 12), longest)
	return d/2 + rand.N(d/2+1)
}

// sleep returns after a time, when ctx ends, or with a wake-up; true for the latter.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
		return true
	}
	return false
}

// absent handles a resource that the API server does not serve. If there is no such definition it is empty, until there is.
func (w *watcher) absent(ctx context.Context) {
	wake := w.source.board.wait(w.definition()) // what changes from here on is not missed
	defined, known := w.defined(ctx)
	if !defined {
		if !w.listed {
			w.skip()
		} else {
			w.set.deliver(func(into *source.Event) { w.apply(newPass().steps(w), into) })
		}
		w.recovered()
	}
	longest := absentAtMost
	switch {
	case defined: // it is about to be served
		longest = retryAtMost
	case !known || !w.source.board.isLive():
		longest = unknownCRDsMost
	}
	w.failures++
	if sleep(ctx, pause(w.failures, longest), wake) {
		w.failures = 0
	}
}

// definition is how a resource is written in full, "virtualservices.networking.istio.io", as its CustomResourceDefinition is named.
func (w *watcher) definition() string { return w.resource.GroupResource().String() }

// defined asks whether there is a definition; known is false if nobody can say, which is taken for no.
func (w *watcher) defined(ctx context.Context) (defined, known bool) {
	err := w.source.client.get(definitions(), "").Name(w.definition()).SetHeader("Accept", metadataOnly).Do(ctx).Error()
	switch {
	case err == nil:
		return true, true
	case apierrors.IsNotFound(err):
		return false, true
	case refused(err):
		return false, false
	}
	return true, false // the API server has other worries
}

// expired tells that the server does not have the changes since the version that is known any more, or not yet.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// refused tells that somebody must give Lateen more rights.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
