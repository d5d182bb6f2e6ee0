// Package evaluate decides about a call as the filters of a proxy's configuration do, and says
// why: those of RBAC, of tokens, and of external authorizers. It reads Envoy's documentation of
// them, and nothing of what made the configuration.
//
//	Config, call  ──► Config.Decide  Report: by the filter chain that takes the call
//	filters, call ──► Decide         Report
//
// What it does not know is an error, never a guess. It may import api/jwks, api/model
// and mesh/policy.
package evaluate
