// Package istiojson reads Istio's API objects from JSON, as protojson does. It also accepts Go's
// notation of durations ("300ms", "1h30m"), which Istio's API uses; protobuf knows only seconds.
//
// It imports nothing of ours.
package istiojson
