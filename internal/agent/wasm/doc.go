// Package wasm owns the modules of the proxy's Wasm filters: it fetches them, keeps them in files,
// and has the configuration name these.
//
//	resource of a filter ──► Rewriter ──► the same, with the module's file
//	                            │          or, if it cannot be had, a filter that accepts or refuses all
//	                            └─ Modules: files by checksum ◄── http(s):// and oci://
//
// Formats are those of Istio's control plane and agent: where a module is, its checksum, pull
// policy and pull secret stand in the configuration of the VM.
//
// A module is fetched from public addresses, and from others only where a setting names their
// network: who writes a plugin must not have proxies call what is theirs.
//
// It may import agent/metrics.
package wasm
