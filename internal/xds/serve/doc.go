// Package serve owns the gRPC shell around the xDS protocol: it listens, admits and authenticates streams, decodes
// requests, drives one session per stream, writes ready-made frames and ends streams that do not take them.
//
//	gRPC ──► reader ──► requests ─┐
//	fanout.Conn ──► wake, turn ───┼──► loop ──► session ──► fanout.Frame ──► gRPC
//	clock ──► tick ───────────────┘
//
// A stream has two goroutines: a reader, and the loop, which owns the session. The package may import observe, view,
// xds/session and xds/fanout. It knows nothing of translation, of classes or of Istio's API.
package serve
