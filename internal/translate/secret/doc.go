// Package secret owns the translation of credentials to Envoy's Secrets, which go out over SDS. Its
// functions are pure, and equal inputs have equal bytes in any process.
//
//	CertificateInput ──► Certificate "kubernetes://<credential>": a certificate and its key
//	AuthoritiesInput ──► Authorities "kubernetes://<credential>-cacert": authorities to check others by
//
// Names are those of Istio. Listeners and clusters refer to secrets by name alone
// (pb.SecretOverADS), so that one that is rotated changes nothing else.
//
// It may import api/model.
package secret
