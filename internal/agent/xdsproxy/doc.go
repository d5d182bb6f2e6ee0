// Package xdsproxy passes aggregated discovery on between Envoy and the control plane.
//
//	Envoy ── Unix socket ── stream ─── TLS, token ── control plane
//	                          │ ├─ Hook: name table, trust bundle (the agent's own subscriptions)
//	                          │ └─ Accepted: clusters and listeners are in force
//	                          └─── cache: what Envoy has accepted, on disk
//
// A stream of Envoy has a stream to the control plane of its own, in the same variant (delta or
// state of the world). Messages pass undecoded, in both directions, as fast as the slower side
// reads: nothing is queued. Filters for which something is fetched are taken out of their responses
// and follow in ones of the agent's own (filterQueue). When the control plane's stream ends, so
// does Envoy's; Envoy opens another one and reports what it has. The proxy holds that stream, and
// tries to reach the control plane with backoff, until it can go on.
//
// What Envoy acknowledges is kept in a file (cache), except Secrets. An Envoy that starts while the
// control plane cannot be reached, and so reports nothing, gets its configuration from there. As
// soon as the control plane answers, that stream ends. Envoy reports the versions that it has from
// the file, which are the control plane's, and gets the difference.
//
// It may import agent/wire and xds/typeurl.
package xdsproxy
