// Package ca is the certificate authority of the mesh: it signs the certificates of workloads.
//
//	Secret cacerts          ─┐ Store.Run: validated     Authority       Service: CreateCertificate
//	Secret istio-ca-secret  ─┴──────────► Holder ─────► (a value) ────► Serving: 15012
//	       ▲                                 │
//	       └─ Store.Maintain (the leader)    └─ Roots.Run (the leader) ► ConfigMap istio-ca-root-cert
//	          makes and rotates the root                                 (istio-ca-crl) in each
//	                                                                     namespace
//
// An Authority is immutable and signs. A request proves that the caller has a key and asks for
// nothing else: the identity in the certificate is the one that the caller proved, and a request
// that names another is refused. The name of the caller's Pod does not go into the certificate,
// since peers would see it and Istio's certificates have no such field.
//
// In place of an Authority, a Registration may have requests signed by a signer of Kubernetes. It
// checks them in the same way, and what the signer returns.
//
// Rotation of the self-signed root has three phases (rotate.go). No phase breaks a connection, even
// of clients that take one root only: each root also certifies the key of the other, and leaves are
// sent with that certificate.
//
// It may import observe.
package ca
