// Package webhook owns what an API server asks before it stores objects: whether an object of
// Istio's API may be stored, and what a Pod gets that takes part in the mesh.
//
//	AdmissionReview ─► manifest (strict) ─► convert ─► allowed with warnings, or refused with errors
//	AdmissionReview of a Pod ─► inject ─► allowed with a patch, or refused with an error
//
// It reports what the directory source and the pipeline would report of the object, in the same
// words, because all of them read with the same code. It does not check what objects say about each
// other (a missing subset), since they come in any order. It allows kinds that Lateen does not
// read.
//
// It may import api/kinds, api/convert, api/model, cluster/inject, observe, source and
// source/manifest. It translates nothing and writes nothing.
package webhook
