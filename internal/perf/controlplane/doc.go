// Package controlplane is the control plane that lateen perf measures, from outside: objects go in, and it has an address for proxies and a
// process that can be looked at. There are two.
//
//	InMemory   lateen's own pipeline as a child process, fed over a socket pair:  Apply ──► link.Relay ══► link.Source ──► app.Pipeline
//	External   any xDS control plane that reads a Kubernetes API server:          Apply ──► API server ──► whatever it is
//
// So what a control plane uses is told apart from what the load and the simulated sidecars use.
//
// It may import api/kinds, source, link, local (whose tokens a link carries), perf/measure, perf/load (whose names it knows its objects by)
// and perf/port.
package controlplane
