// Package census counts what a mesh has and who sees it, for those who judge a mesh by its size:
// the advisor, from a running control plane or from manifests alone.
//
//	state.Snapshot ──► Of ──► Census (plain values, as JSON at /debug/census)
//
// It only reads. It may import api/kinds, api/model, mesh/state and mesh/scope.
package census
