// Package dataplane owns lateen perf data-plane: a mesh of real Envoys on loopback, a path of
// Envoys with a hand-written configuration beside it, and what both add to requests.
//
//	baseline     client ────────────────────────────────────────► server
//	sidecar      client ──► client's sidecar ──► server's sidecar ──► server
//	ingress      client ──► gateway ───────────► server's sidecar ──► server
//	handwritten  client ──► Envoy ─────────────► Envoy ─────────────► server
//
// All paths lead to the same process and are measured in turn, so that what disturbs the machine
// disturbs all of them. The package imports api/model, app, app/config, cli/terminal, local,
// local/agents, source/dir, perf/handwritten, perf/measure and perf/traffic.
package dataplane
