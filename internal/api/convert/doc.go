// Package convert turns one object of the Kubernetes or Istio API into values of model, and what is wrong with it into
// source.Problem values.
//
//	source.Change ──► Converter.Convert ──► Result{Objects, Problems}
//
// The result depends on that object and the mesh configuration alone, never on what the object was before. Nothing
// that is wrong fails open: a route that cannot be in force as written is kept and marked Broken, what limits a proxy limits
// it more rather than less, and a connection that was meant to be encrypted is closed (docs/bad-objects.md).
// A field of Istio's API that is not translated is reported when it is set; the table in used.go says which fields are.
//
// It may import api/kinds, source and model.
package convert
