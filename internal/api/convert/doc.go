// Package convert turns one object of the Kubernetes or Istio API into values of model, and its
// mistakes into source.Problem values.
//
//	source.Change ──► Converter.Convert ──► Result{Objects, Problems}
//
// The result depends only on that object and the mesh configuration, never on earlier versions of
// the object. No mistake fails open. A route that cannot be in force as written is kept and marked
// Broken. What limits a proxy limits it more rather than less. A connection that was meant to be
// encrypted is closed (docs/bad-objects.md). A field of Istio's API that is not translated is
// reported when it is set; the table in used.go has the fields that are.
//
// It may import api/kinds, api/cel, api/envoyfilter, api/extension, api/jwks, api/limits,
// api/model, api/ratelimit, source and source/istiojson.
package convert
