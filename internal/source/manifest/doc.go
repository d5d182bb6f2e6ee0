// Package manifest reads manifests of Kubernetes and Istio objects strictly: unknown fields, wrong types, values that no enum has,
// keys given twice and bad names are source.Problem values, written for the person who made the mistake.
//
//	text (YAML or JSON) ──► nodes ──► one walk along the shape of the kind ──► Document, or problems
//
// A shape is the schema of a place, derived from the Go types of Kubernetes and the protobuf descriptors of Istio. The
// directory source reads files with it, and the admission webhook the objects that an API server asks about, so that both
// say the same.
//
// The package may import api/kinds and source, and nothing else of Lateen.
package manifest
