// Package route owns the translation of HTTP routes: pure functions from an input struct to Envoy's
// VirtualHost and RouteConfiguration.
//
//	VirtualHostInput ──► VirtualHost ─┐
//	FallbackInput    ──► Fallback ────┴─► members of the route table, named by the assembly (compile)
//	TableInput       ──► Table ─────────► its head
//
// Names, clusters and semantics are those of Istio's API, so that its tools and EnvoyFilters find
// what they know. What only a class of proxies decides (source labels, gateways, ports of a match)
// was decided before: a RouteRef is in force.
//
// The conversion has validated what stands in the model (regular expressions, header names and
// values, status codes); a route that it could not read is Broken and answers 503. What slips
// through all the same must never become another route's traffic: it is answered with 503 too.
//
// It may import api/kinds, source, api/model and translate/pb. Equal inputs have equal bytes in
// every process.
package route
