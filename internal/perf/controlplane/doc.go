// Package controlplane runs the control plane that lateen perf measures, and treats it as a black
// box: objects go in, and it has an xDS address and a process with CPU time and memory. There are
// two kinds.
//
//	InMemory   lateen's own pipeline as a child process, fed over a socket pair:
//	           Apply ──► link.Relay ══► link.Source ──► app.Pipeline
//	External   any xDS control plane that reads a Kubernetes API server:
//	           Apply ──► API server ──► the control plane
//
// A separate process separates the control plane's cost from that of the load and of the simulated
// sidecars.
//
// The package may import api/kinds, source, local/link, local (for the tokens of a link),
// perf/measure, perf/load (for the names of its objects) and perf/port.
package controlplane
