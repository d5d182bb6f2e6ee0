// Package meshgen makes meshes of any size for tests and benchmarks whose subject is how costs
// grow: the same mesh at 1,000 and at 10,000 services, in which what surrounds one service is the
// same at both sizes.
//
// It speaks Kubernetes and Istio objects as source.Change; whoever tests a later stage converts
// them with convert.Converter. Everything is a function of the service's number and the size, so
// two calls make equal content in fresh pointers.
//
//	service i ──► namespace i % 50, kind by i / 50 % 20
//
//	kinds 0–9   HTTP on port 80               15  headless, TCP on port 9042
//	10          HTTP and gRPC                 16  headless, HTTP
//	11          port that does not say        17  ServiceEntry, names looked up
//	12          TCP on port 3306, exportTo .  18  ServiceEntry, listed endpoints
//	13          TCP on port 3306, to all      19  ServiceEntry that selects workloads
//	14          TCP on a port of its own
//
// So each block of 1,000 services has each kind in each namespace.
//
// What is listed whole in one resource of Envoy grows with the mesh by nature: the TLS services on
// one port are filter chains of one listener. So there are as many of them at every size (in the
// first 1,000 services).
//
// It may be imported by tests alone, and imports api/jwks, api/kinds and source.
package meshgen
