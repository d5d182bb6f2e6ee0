// Package istiojson reads Istio's API objects from JSON, as protojson does. It also accepts Go's
// notation of durations ("300ms", "1h30m"), which Istio's API uses; protobuf knows only seconds. Of
// the kinds that protect it knows the spec that replaces one that cannot be read.
//
// The package may import api/kinds, and nothing else of Lateen.
package istiojson
