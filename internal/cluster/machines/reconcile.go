package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is the writer that the API server records.
const fieldManager = "lateen-machines"

// timeFormat is that of the annotations, as istiod writes them.
const timeFormat = time.RFC3339Nano

// reconcile makes an entry as its record says. If again is not zero it wants to be called that much
// later.
func (r *Registry) reconcile(
	ctx context.Context, key types.NamespacedName, rec record,
) (again time.Duration, err error) {
	e, err := r.o.API.WorkloadEntries(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch missing := apierrors.IsNotFound(err); {
	case err != nil && !missing:
		return 0, err
	case !rec.disconnectedAt.IsZero() && (missing || !rec.accepted && rec.heir == ""):
		r.forget(key) // there is nothing, or it was never this machine's
		return 0, nil
	case !rec.disconnectedAt.IsZero():
		return r.leave(ctx, key, rec, e)
	case missing && rec.machine.Group == "":
		return 0, fmt.Errorf("%w: WorkloadEntry %s, which the proxy's metadata WORKLOAD_ENTRY names", ErrMissing, key)
	case missing:
		e, err = r.create(ctx, rec)
	default:
		e, err = r.connected(ctx, rec, e)
	}
	if err != nil {
		return 0, err
	}
	if e == nil { // that of another replica, which may be wrong for as long as clocks differ
		return r.o.Grace, nil
	}
	r.accept(key)
	return 0, r.writeHealth(ctx, rec, e)
}

// create makes the entry of a machine from its group.
func (r *Registry) create(ctx context.Context, rec record) (*networkingv1.WorkloadEntry, error) {
	m := rec.machine
	group, err := r.o.API.WorkloadGroups(m.Namespace).Get(ctx, m.Group, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: WorkloadGroup %s/%s, which the proxy's metadata AUTO_REGISTER_GROUP names",
			ErrMissing, m.Namespace, m.Group)
	}
	if err != nil {
		return nil, err
	}
	e := m.entryOf(group)
	if err := m.mayControl(e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	e.Annotations[controllerAnnotation], e.Annotations[placeAnnotation] = r.o.Controller, r.place(r.o.Controller)
	e.Annotations[connectedAnnotation] = rec.connectedAt.UTC().Format(timeFormat)
	made, err := r.o.API.WorkloadEntries(m.Namespace).Create(ctx, e, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w: the API server refuses the WorkloadEntry of WorkloadGroup %s/%s: %w", ErrDenied,
			m.Namespace, m.Group, err)
	}
	if err != nil {
		return nil, err
	}
	r.o.Metrics.Registered.Inc()
	r.o.Log.Info("a machine has registered", "entry", m.key(), "group", m.Group, "health_checks", m.Probes)
	return made, nil
}

// connected has an entry say that its proxy is connected here. It returns nil if it says that the
// proxy has come to another replica since.
func (r *Registry) connected(
	ctx context.Context, rec record, e *networkingv1.WorkloadEntry,
) (*networkingv1.WorkloadEntry, error) {
	if err := rec.machine.mayControl(e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	if rec.machine.Group == "" && !takesHealth(e) {
		return e, nil // nothing is written into an entry that somebody else keeps and nobody checks
	}
	since := timeOf(e, connectedAnnotation)
	if e.Annotations[controllerAnnotation] == r.o.Controller && !since.IsZero() && !since.Before(rec.connectedAt) {
		return e, nil
	}
	if since.After(rec.connectedAt) {
		return nil, nil
	}
	e, err := r.annotate(ctx, e, map[string]any{
		controllerAnnotation: r.o.Controller, placeAnnotation: r.place(r.o.Controller),
		connectedAnnotation: rec.connectedAt.UTC().Format(timeFormat), disconnectedAnnotation: nil,
	})
	if err == nil && isRegistered(e) {
		r.o.Metrics.Updated.Inc()
	}
	return e, err
}

// leave has an entry say that its proxy has left, and removes it after the grace period.
func (r *Registry) leave(
	ctx context.Context, key types.NamespacedName, rec record, e *networkingv1.WorkloadEntry,
) (again time.Duration, err error) {
	controller := e.Annotations[controllerAnnotation]
	if controller != r.o.Controller && (rec.heir == "" || controller != rec.heir) {
		r.forget(key) // its proxy is connected elsewhere, or it is of no proxy
		return 0, nil
	}
	left := timeOf(e, disconnectedAnnotation)
	if since := timeOf(e, connectedAnnotation); !since.IsZero() || left.IsZero() {
		if rec.heir == "" && since.After(rec.connectedAt) {
			r.forget(key) // a process of the same name before, or after this one
			return 0, nil
		}
		left = rec.disconnectedAt
		if e, err = r.annotate(ctx, e, map[string]any{
			connectedAnnotation: nil, disconnectedAnnotation: left.UTC().Format(timeFormat),
		}); err != nil {
			return 0, err
		}
		if isRegistered(e) {
			r.o.Metrics.Unregistered.Inc()
		}
	}
	if wait := r.o.Grace - r.o.Now().Sub(left); wait > 0 {
		return wait, nil
	}
	if err := r.remove(ctx, e); err != nil {
		return 0, err
	}
	r.forget(key)
	return 0, nil
}

// remove deletes an entry that was made here, and the health of another one, which nobody knows any
// more.
func (r *Registry) remove(ctx context.Context, e *networkingv1.WorkloadEntry) error {
	if !isRegistered(e) {
		return r.setHealth(ctx, e, nil)
	}
	err := r.o.API.WorkloadEntries(e.Namespace).Delete(ctx, e.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &e.UID, ResourceVersion: &e.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	r.o.Metrics.Deleted.Inc()
	r.o.Log.Info("the entry of a machine that has left is removed", "entry", e.Namespace+"/"+e.Name)
	return nil
}

// annotate changes annotations; nil removes one. It fails if the entry has changed meanwhile.
func (r *Registry) annotate(
	ctx context.Context, e *networkingv1.WorkloadEntry, annotations map[string]any,
) (*networkingv1.WorkloadEntry, error) {
	return r.patch(ctx, e, map[string]any{
		"metadata": map[string]any{"resourceVersion": e.ResourceVersion, "annotations": annotations},
	})
}

func (r *Registry) patch(
	ctx context.Context, e *networkingv1.WorkloadEntry, change map[string]any, subresources ...string,
) (*networkingv1.WorkloadEntry, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return r.o.API.WorkloadEntries(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
}

// timeOf reads an annotation with a time; zero if there is none that can be read.
func timeOf(e *networkingv1.WorkloadEntry, annotation string) time.Time {
	t, err := time.Parse(timeFormat, e.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// ownedBy has the API server remove an entry with its group. The entry does not keep the group from
// being deleted, which would take the right to change finalizers of groups.
func ownedBy(group *networkingv1.WorkloadGroup) []metav1.OwnerReference {
	owner := metav1.NewControllerRef(group, networkingv1.SchemeGroupVersion.WithKind("WorkloadGroup"))
	owner.BlockOwnerDeletion = nil
	return []metav1.OwnerReference{*owner}
}

// place returns the value of placeAnnotation of a replica beside this one.
func (r *Registry) place(controller string) string { return r.o.Namespace + "/" + controller }
