// Package resource owns what xDS is made of: Resources (name, content version, encoded bytes),
// immutable Sets of them with cheap differences, the State that the proxies of a class should have
// at a generation, and the table of types.
//
//	bytes ──► Resource ──► Store: hash-consed Sets ──► State: one Set per Type ──► Differ: Changes, shared by sessions
//	                                                                               Overlay: what only one proxy has
//
// All of it is immutable and shared: a Resource is encoded once, sets share the subtrees that they
// agree on, and a State is replaced, never changed. Route tables and assignments are assemblies of
// members, put together when their bytes are first asked for. A resource that depends on the
// proxy's own addresses has placeholders in their place until it is sent (Overlay).
//
// It knows no mesh: of model it takes the hash-consed List and the names of the placeholders, which
// test/imports holds it to; it may import xds/typeurl too. It knows nothing of gRPC or of sessions.
package resource
