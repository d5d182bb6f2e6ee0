// Package registration owns the variable part of the webhooks' configurations in the cluster: the
// roots by which the API server verifies the webhook, and whether objects of Istio's API are stored
// while it cannot be asked.
//
//	certs.Holder ── bundle ──► Run (the leader's) ──► webhooks[].clientConfig.caBundle
//	API server, dry run of a bad object ──► refused? ──► webhooks[].failurePolicy: Fail
//	the last replica stops (Yield) ─────────────────► webhooks[].failurePolicy: Ignore
//	certs.Holder ── bundle ──► RunInjection (the leader's) ──► the same roots for the injection
//
// The installer owns the rest (rules, selectors, address). It may import api/kinds and observe.
package registration
