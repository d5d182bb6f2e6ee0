// Package webhook owns the validating webhook: it answers an API server that asks whether an object
// of Istio's API may be stored.
//
//	AdmissionReview ──► manifest (strict reading) ──► ingest.Convert ──► allowed with warnings, or refused with all errors
//
// It says what the directory source and the pipeline would say of the object, in the same words, as
// both read with the same code; what objects say about each other (a missing subset) is not its
// business, since they come in any order. Kinds that Lateen does not read are allowed.
//
// It may import api/kinds, observe, source, source/manifest, model and ingest; it translates
// nothing and writes nothing.
package webhook
