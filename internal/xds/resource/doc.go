// Package resource owns the data of xDS: Resources (name, content version, encoded bytes),
// immutable Sets of them with cheap differences, the State that the proxies of a class should have
// at a generation, and the table of types.
//
//	bytes ─► Resource ─► Store: hash-consed Sets ─► State: one Set per Type ─► Differ: Changes
//	                                                                           Overlay: per proxy
//
// All of it is immutable and shared. A Resource is encoded once, sets share the subtrees that they
// agree on, and a State is replaced, never changed. Route tables and assignments are assembled from
// their members when their bytes are first asked for. A resource that depends on the proxy's own
// addresses holds placeholders until it is sent (Overlay).
//
// The package knows no mesh, no gRPC and no sessions. It imports xds/typeurl, and of api/model only
// the hash-consed List and the names of the placeholders; test/imports checks that.
package resource
