// Package keysets keeps the fetched keys of token issuers in a ConfigMap, which all
// replicas read. The leader writes it.
//
// It imports api/jwks and nothing else of Lateen.
package keysets
