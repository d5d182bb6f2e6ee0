package install

import (
	"cmp"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// DefaultRevision is the revision of the only control plane.
const DefaultRevision = "default"

// ReplicaLabels returns the labels that the pods of a revision have, and those of Istio have not.
func ReplicaLabels(revision string) map[string]string {
	return map[string]string{
		"app":                    "istiod", // Istio's tools look for it
		"app.kubernetes.io/name": "lateen",
		kinds.RevisionLabel:      cmp.Or(revision, DefaultRevision),
	}
}
