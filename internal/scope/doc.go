// Package scope owns who sees what: which Class a proxy belongs to, and which services, routes and rules a class sees in
// a World (Sidecar, exportTo, workload selectors, gateways). It may import source, model and world. It knows nothing of Envoy.
package scope
