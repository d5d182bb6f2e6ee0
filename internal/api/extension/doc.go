// Package extension owns the reading of TrafficExtensions and WasmPlugins
// (extensions.istio.io/v1alpha1): from what users write to patches of the model that add the filter
// of one to proxies.
//
//	Spec ──► Read ──► phase, []*model.ConfigPatch, problems
//
// A Wasm filter is a resource in the form that Istio's agents take: where its module is fetched
// from, and how, stands in the configuration, and the agent puts the file in its place. An
// extension with a mistake becomes a filter that refuses all, unless it is to fail open.
//
// It may import api/envoyfilter, api/kinds, api/model and source.
package extension
