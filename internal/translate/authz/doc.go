// Package authz owns the translation of AuthorizationPolicies and RequestAuthentications to Envoy's
// filters. Its functions are pure, and equal inputs have equal bytes in any process.
//
//	Input ──► HTTP  filters of requests, in front of those that routes configure
//	      ──► Resource  the same as one resource, which a listener names
//	      ──► TCP   filters of connections that are not HTTP
//
// The order is that of Istio: policies with CUSTOM ask their providers first, then tokens are
// verified, AUDIT marks, DENY refuses, and ALLOW refuses what it does not match. Names of rules
// ("ns[shop]-policy[web]-rule[0]"), statistics and dynamic metadata are Istio's.
//
// On connections that are not HTTP, a condition about requests cannot be evaluated. It closes: a
// rule of an ALLOW policy that has one matches no connection, and any other rule goes without it.
//
// It may import api/jwks, api/model and translate/pb.
package authz
