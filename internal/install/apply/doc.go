// Package apply brings the objects of an installation into a cluster, and takes them out again.
//
//	objects ──► Plan: dry runs of all ──► foreign or in conflict? an error, and nothing is touched
//	            └─► Steps: created, changed, same, kept ──► Apply, in order ──► Wait ──► Leftovers
//
// Each object that it applies has the label OwnerLabel, whose value is the revision. It changes
// only objects that are Lateen's, removes only those with that label, and never a namespace, the
// kinds of Istio or the root of the mesh. It owns fields by server-side apply: what somebody else
// has set in an autoscaler, or as the number of replicas, stays.
//
// It may import api/kinds.
package apply
