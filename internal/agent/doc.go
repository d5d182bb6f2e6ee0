// Package agent runs what stands beside Envoy in a Pod, as Istio's pilot-agent does: it writes
// Envoy's bootstrap, serves it xDS, certificates and DNS on this machine, starts and drains it, and
// answers probes and Prometheus.
//
//	settings ─► bootstrap ─► Envoy's file ─► envoy: one process, drained on SIGTERM
//	        └─► services beside it (status, xDS, certificates, DNS), until Envoy has ended
//
// It belongs to no control plane and imports nothing of one: of the product it may import the
// packages below it and xds/typeurl. A test holds it to that, because it has to stay small.
package agent
