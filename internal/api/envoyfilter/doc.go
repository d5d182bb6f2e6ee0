// Package envoyfilter owns the reading of EnvoyFilters (networking.istio.io/v1alpha3): from what
// users write to patches of the model, whose values are encoded messages of Envoy.
//
//	networking.EnvoyFilter ──► Read ──► []*model.ConfigPatch, problems
//	FilterValue, RefuseAll: the values of patches that add filters, for other kinds too
//
// A patch that cannot be read, or whose value an Envoy would refuse by the rules of its fields, is
// left out alone. It links all extensions of Envoy.
//
// It may import api/model and source.
package envoyfilter
