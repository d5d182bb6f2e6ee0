// Package manifest reads manifests of Kubernetes and Istio objects strictly. Unknown fields, wrong
// types, unknown enum values, duplicate keys and bad names become source.Problem values, written
// for the person who made the mistake.
//
//	text (YAML, JSON) ──► nodes ──► one walk along the schema of the kind ──► Document, or problems
//
// Schemas are derived from the Go types of Kubernetes and the protobuf descriptors of Istio. The
// directory source reads files with this package. The admission webhook reads the objects that an
// API server asks about, so both say the same.
//
// The package may import api/kinds, source and source/istiojson, and nothing else of Lateen.
package manifest
