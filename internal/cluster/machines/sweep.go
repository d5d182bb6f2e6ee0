package machines

import (
	"context"
	"errors"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// sweepEvery is how many grace periods lie between two sweeps, as with istiod.
	sweepEvery = 10
	// pageSize is how many entries are listed at a time.
	pageSize = 500
)

// Lead ends the entries of replicas that are gone, until ctx ends. The replica that holds the Lease
// calls it.
func (r *Registry) Lead(ctx context.Context) { r.sweepAlways(ctx, true) }

func (r *Registry) sweepAlways(ctx context.Context, leads bool) {
	var before map[string]bool
	every := time.NewTicker(max(sweepEvery*r.o.Grace, time.Second))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		gone, err := r.sweep(ctx, sweeping{leads: leads, before: before})
		if before = gone; err != nil && ctx.Err() == nil {
			r.o.Metrics.Errors.Inc()
			r.o.Log.Warn("the WorkloadEntries of machines that have left are not looked for", "error", err)
		}
	}
}

// sweep looks at all entries once: those that this replica should know and does not, those that are
// gone and should not be, and, for the leader, those of replicas that are gone. It returns which
// controllers are.
func (r *Registry) sweep(ctx context.Context, s sweeping) (gone map[string]bool, err error) {
	present := map[types.NamespacedName]bool{}
	s.gone = map[string]bool{}
	for next := ""; ; {
		page, failed := r.o.API.WorkloadEntries("").List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if failed != nil {
			return s.gone, errors.Join(err, failed)
		}
		for _, e := range page.Items {
			key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
			present[key] = true
			err = errors.Join(err, r.look(ctx, e, s))
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	for _, key := range r.missing(present) {
		r.queue.Add(key)
	}
	return s.gone, err
}

// sweeping is what one sweep knows.
type sweeping struct {
	leads bool
	gone  map[string]bool // which controllers are gone, of those that were looked at
	// before is gone of the sweep before. Entries of a controller are taken over when two sweeps
	// say so: until then its machines have come to other replicas.
	before map[string]bool
}

// look takes an entry over that its controller does not end any more.
func (r *Registry) look(ctx context.Context, e *networkingv1.WorkloadEntry, s sweeping) error {
	controller := e.Annotations[controllerAnnotation]
	switch {
	case controller == "" || e.Annotations[placeAnnotation] != r.place(controller): // of no replica beside this one
	case controller == r.o.Controller:
		if since := timeOf(e, connectedAnnotation); since.Before(r.started) { // of a process before this one
			r.inherit(e, controller)
		}
	case s.leads && r.o.Gone != nil:
		gone, known := s.gone[controller]
		if !known {
			var err error
			gone, err = r.o.Gone(ctx, controller)
			if s.gone[controller] = gone; err != nil {
				return err // of the others the sweep goes on
			}
		}
		if gone && s.before[controller] {
			r.inherit(e, controller)
		}
	}
	return nil
}

// inherit records an entry whose proxy was connected to a process that is gone as one whose proxy
// has just left, unless it is known.
func (r *Registry) inherit(e *networkingv1.WorkloadEntry, controller string) {
	if !isRegistered(e) && !hasHealth(e) {
		return
	}
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records[key] != nil {
		return
	}
	m := Machine{
		Namespace: e.Namespace, Account: e.Spec.GetServiceAccount(), Group: e.Annotations[groupAnnotation],
		Entry: e.Name,
	}
	r.keep(key, &record{heir: controller, disconnectedAt: r.o.Now()}, m)
	r.queue.Add(key)
}

func hasHealth(e *networkingv1.WorkloadEntry) bool {
	for _, c := range e.Status.GetConditions() {
		if c.GetType() == healthCondition() {
			return true
		}
	}
	return false
}

// missing returns the entries of connected proxies that somebody has deleted.
func (r *Registry) missing(present map[types.NamespacedName]bool) (all []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, rec := range r.records {
		if rec.disconnectedAt.IsZero() && !present[key] {
			all = append(all, key)
		}
	}
	return all
}
