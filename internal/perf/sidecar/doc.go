// Package sidecar simulates Envoy sidecars as an xDS control plane sees them: thousands in one
// process, each with its own connection and a few kilobytes of memory, without a data path. It uses
// only the wire protocol, so that different control planes can be compared.
//
//	fleet, err := sidecar.New(sidecar.Options{Targets: []string{"127.0.0.1:15010"}})
//	who := sidecar.Identity{Namespace: "shop", Pod: "web-0", Address: addr, Labels: labels}
//	s := fleet.Start(who, sidecar.Faults{})
//	err = fleet.Await(ctx, func(s sidecar.Stats) bool { return s.Synced == s.Started })
//	s.Stop()
//	fleet.Close()
//
// A sidecar identifies itself as Istio's agent identifies an Envoy, and subscribes as Envoy does:
// to clusters, to the endpoints that these name, then to listeners, to the route tables that these
// name, and to virtual hosts if a table loads them on demand. It acknowledges each response,
// reconnects with Envoy's backoff, and then reports the versions that it has. Faults make it
// misbehave.
//
// Resources are not decoded except for the names of others. Options.Classify is called once for
// each distinct resource and returns its mark. Options.Arrived is called when a marked resource
// reaches a sidecar, before the acknowledgement.
//
//	socket ─► framing (HTTP/2) ─► message (fields of a response) ─► interner (distinct resources)
//	                                                               ─► tables (what is held)
//	       ◄─ framing ◄─ outbox (requests) ◄─ protocol (delta or state of the world; what to ask for next)
//
// A fleet runs on a few loops. A loop is one goroutine that owns its sidecars, their tables and an
// epoll instance. An idle sidecar is a struct and a socket, without goroutine, stack or buffer.
// With TLS it also has crypto/tls's state, and a goroutine during the handshake.
//
// The package imports xds/typeurl, and nothing else of Lateen.
package sidecar
