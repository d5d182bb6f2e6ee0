package kube

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// backOff decides what the end of a request means, and waits before the next one. A nil error is a
// watch that ended at once.
func (w *watcher) backOff(ctx context.Context, err error) {
	limit := maxRetry
	switch {
	case err == nil:
	case expired(err):
		w.version = "" // a list finds what happened since
		if w.failures == 0 {
			w.failures = 1
			return
		}
	case apierrors.IsNotFound(err) && w.resource.custom:
		w.version = ""
		w.waitForDefinition(ctx)
		return
	default:
		w.source.o.Metrics.SyncErrors.WithLabelValues(w.source.o.Cluster).Inc()
		if refused(err) {
			limit = maxRefusedRetry
			if w.resource.kind == "" && !w.resource.tags {
				w.source.crds.setWatched(false)
			}
			if w.resource.watch.Optional {
				w.skipFirstList()
			}
		}
		w.unhealthy = true
		w.source.health.failed(w, err)
	}
	w.failures++
	sleep(ctx, pause(w.failures, limit), nil)
}

// Waits between attempts: the shortest, the longest, the longest for a resource that may not be
// read, and the longest for one that does not exist while CustomResourceDefinitions can be watched,
// and while they cannot.
const (
	minRetry        = 100 * time.Millisecond
	maxRetry        = 5 * time.Second
	maxRefusedRetry = 30 * time.Second
	maxAbsentRetry  = 5 * time.Minute
	maxUnknownRetry = 15 * time.Second
)

// pause doubles with each failure. Half of it is random, so that watchers do not all come back at
// once.
func pause(failures int, limit time.Duration) time.Duration {
	d := min(minRetry<<min(failures-1, 12), limit)
	return d/2 + rand.N(d/2+1)
}

// sleep returns after a time, when ctx ends, or on a wake-up. It returns true for a wake-up.
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

// waitForDefinition handles a resource that the API server does not serve. Without a definition the
// resource is empty until there is one. If nobody may know whether there is one, what is loaded
// stays in force.
func (w *watcher) waitForDefinition(ctx context.Context) {
	wake := w.source.crds.wait(w.definition()) // what changes from here on is not missed
	defined, known := w.isDefined(ctx)
	switch {
	case defined:
	case !known && len(w.fingerprints.keys(w.namespace)) > 0: // an API server that starts does not serve it yet
		w.skipFirstList()
		w.unhealthy = true
		w.source.health.unserved(w)
	case !w.listed:
		w.skipFirstList()
		w.recovered()
	default:
		w.set.deliver(func(into *source.Event) { w.apply(newListing().updates(w), into) })
		w.recovered()
	}
	limit := maxAbsentRetry
	switch {
	case defined: // it will be served soon, or is in another version
		w.served = (w.served + 1) % len(w.resource.versions)
		limit = maxRetry
	case !known || !w.source.crds.isWatched():
		limit = maxUnknownRetry
	}
	w.failures++
	if sleep(ctx, pause(w.failures, limit), wake) {
		w.failures = 0
	}
}

// definition returns the full name of a resource, "virtualservices.networking.istio.io". Its
// CustomResourceDefinition has the same name.
func (w *watcher) definition() string { return w.resource.GroupResource().String() }

// isDefined asks whether there is a definition. known is false if the question may not be asked;
// the answer is then no.
func (w *watcher) isDefined(ctx context.Context) (defined, known bool) {
	crds := definitions()
	err := w.source.client.get(crds, crds.Version, "").Name(w.definition()).
		SetHeader("Accept", metadataOnly).Do(ctx).Error()
	switch {
	case err == nil:
		return true, true
	case apierrors.IsNotFound(err):
		return false, true
	case refused(err):
		return false, false
	}
	return true, false // some other failure: ask again soon
}

// expired reports whether the server no longer has, or does not yet have, the changes since the
// known version.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(
		err, metav1.CauseTypeResourceVersionTooLarge,
	)
}

// refused reports whether Lateen lacks rights.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
