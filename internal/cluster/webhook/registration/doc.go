// Package registration owns the ValidatingWebhookConfiguration in the cluster, as far as it
// changes: the roots by which the API server knows the webhook, and whether objects get in while it
// cannot be asked.
//
//	certs.Holder ── bundle ──► Run (the leader's) ──► webhooks[].clientConfig.caBundle
//	API server, dry run of a bad object ──► refused? ──► webhooks[].failurePolicy: Fail
//
// Who may ask about what (rules, selectors, address) is the installer's.
// It may import api/kinds and observe.
package registration
