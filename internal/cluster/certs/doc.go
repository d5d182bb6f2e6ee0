// Package certs owns the serving certificate of the control plane: that of the webhook and of xDS
// over TLS.
//
//	Secret in the root namespace ──► Watch (every replica) ──┐
//	       ▲                                                 ├──► Holder ──► tls.Config.GetCertificate, CA bundle
//	       └── Keep (the leader): makes and renews it        │
//	files of the operator's own ────► Files.Run ─────────────┘
//
// The certificate is signed by a root that stands in the same Secret and signs nothing else: it is
// no CA for workloads. It is renewed long before it ends, and who connects later gets the new one.
//
// It may import nothing else of Lateen.
package certs
