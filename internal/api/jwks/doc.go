// Package jwks reads JSON Web Key Sets (RFC 7517), which hold the public keys that signatures of
// tokens are verified with. It writes them in one canonical form that Envoy reads.
//
//	text as users write it, or as an issuer serves it ──► Read ──► set of keys, canonical
//
// Its functions are pure. It imports nothing of Lateen.
package jwks
