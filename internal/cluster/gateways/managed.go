package gateways

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// fieldManager is the writer that the API server records for what Lateen applies, of every
	// revision: a Gateway may go from one to another.
	fieldManager = "lateen"
	// istiodManager is istiod's. Its objects have istiodLabel, and istiod leaves alone those that
	// do not have it.
	istiodManager = "istio.io/gateway-controller"
	istiodLabel   = "gateway.istio.io/managed"
)

// isOwn reports whether a present object is Lateen's to write: it belongs to the Gateway of a UID,
// and Lateen is among its managers. One of istiod's is too, once its label is taken off: that is
// how a user hands it over.
func isOwn(present *metav1.ObjectMeta, gateway string) bool {
	if _, istiods := present.Labels[istiodLabel]; istiods || !belongs(present, gateway) {
		return false
	}
	return entryOf(present, fieldManager) >= 0 || entryOf(present, istiodManager) >= 0
}

// belongs reports whether the Gateway of a UID owns a present object.
func belongs(present *metav1.ObjectMeta, gateway string) bool {
	return slices.ContainsFunc(present.OwnerReferences, func(r metav1.OwnerReference) bool {
		return string(r.UID) == gateway
	})
}

// entryOf returns the place of a manager among those who wrote the object itself, or -1.
func entryOf(present *metav1.ObjectMeta, manager string) int {
	return slices.IndexFunc(present.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Subresource == ""
	})
}

// claimed returns the managers of an object, so that what it was created with, or what istiod has
// applied, counts as applied by Lateen: a field that is not wanted any more then goes with the next
// application. ok is false if that is so already.
func claimed(present *metav1.ObjectMeta) (managers []metav1.ManagedFieldsEntry, ok bool) {
	applied := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == fieldManager && e.Subresource == "" && e.Operation == metav1.ManagedFieldsOperationApply
	}
	if slices.ContainsFunc(present.ManagedFields, applied) {
		return nil, false
	}
	at := entryOf(present, fieldManager)
	if at < 0 {
		at = entryOf(present, istiodManager)
	}
	if at < 0 {
		return nil, false
	}
	managers = slices.Clone(present.ManagedFields)
	managers[at].Manager, managers[at].Operation = fieldManager, metav1.ManagedFieldsOperationApply
	return managers, true
}
