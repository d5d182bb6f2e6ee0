// Package certs owns the serving certificate of the control plane: that of the webhook, and of xDS
// over TLS where there is no certificate authority (trust/ca) or the operator has a certificate of
// their own.
//
//	Secret in the root namespace ──► Watch (every replica) ──┐
//	       ▲                                                 ├─► Holder ─► GetCertificate, CA bundle
//	       └── Maintain (the leader): makes and renews it    │
//	files of the operator's own ───► Files.Run ──────────────┘
//
// The certificate is signed by a root in the same Secret, which signs nothing else: it is no CA for
// workloads. The certificate is renewed 30 days before it expires. New connections get the new one.
//
// ClientCheck verifies the certificates of clients, for the webhook.
//
// It may import nothing else of Lateen.
package certs
