// Package istiojson reads Istio's API objects from JSON. It is what protojson does, but for durations: Istio's API has them in
// Go's notation ("300ms", "1h30m"), of which protobuf's knows but the seconds.
//
// It imports nothing of ours.
package istiojson
