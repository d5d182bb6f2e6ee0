// Package sidecar simulates Envoy sidecars as an xDS control plane sees them: thousands in a process, each with a connection of
// its own, a few kilobytes of memory each, no data path. It speaks to any control plane over the wire, so that two of them can be
// compared.
//
//	fleet, err := sidecar.New(sidecar.Options{Targets: []string{"127.0.0.1:15010"}})
//	s := fleet.Start(sidecar.Identity{Namespace: "shop", Pod: "web-0", Address: addr, Labels: labels}, sidecar.Manners{})
//	err = fleet.Await(ctx, func(s sidecar.Stats) bool { return s.Synced == s.Started })
//	s.Stop()
//	fleet.Close()
//
// A sidecar introduces itself as Istio's agent introduces an Envoy, and asks as Envoy does: clusters, the endpoints that they name,
// then listeners, the route tables that they name, and virtual hosts once a table says that they come of their own. It acknowledges
// each response, connects anew with Envoy's backoff, and then says which versions it has. Manners make one misbehave.
//
// What is in the resources is not decoded but for the names of others. Options.Classify looks at each distinct resource once and
// gives it a mark; Options.Arrived is told when a marked one reaches a sidecar, before that acknowledges it.
//
//	socket ─► framing (HTTP/2) ─► message (fields of a response) ─► interner (distinct resources) ─► tables (what is held)
//	       ◄─ framing ◄─ outbox (requests) ◄─ protocol (delta or state of the world; what to ask for next)
//
// A fleet runs on a few loops. A loop is one goroutine that owns its sidecars, their tables and an epoll instance; an idle
// sidecar is a struct and a socket, and has no goroutine, stack or buffer. With TLS it has crypto/tls's state besides, and a
// goroutine while it shakes hands.
//
// The package imports xds/typeurl, and nothing else of Lateen.
package sidecar
