// Package serve owns the gRPC shell around the xDS protocol. It listens, authenticates streams,
// decodes requests, drives one session per stream, writes ready-made frames and ends streams that
// do not take them. Package admission says when each step may begin.
//
//	gRPC ──► the stream's goroutine: requests ──┐
//	fanout.Hub's pool: pushes, ticks ───────────┴──► session ──► fanout.Frame ──► gRPC
//
// A stream has one goroutine, which reads. It and the Hub's take turns at the session (driveState).
// The package may import observe, xds/resource, xds/session, xds/fanout and xds/admission. It knows
// nothing of translation, of classes or of Istio's API.
package serve
