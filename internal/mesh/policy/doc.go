// Package policy decides what the policies of a workload do with a call, and says why. It is
// written from Istio's documentation, not from Envoy's filters, so that tests compare the two.
//
//	Workload, Call ──► Check   Report: PeerAuthentication, tokens, AuthorizationPolicies
//	policies, Call ──► Decide  Report: AuthorizationPolicies alone
//
// It may import api/model.
package policy
