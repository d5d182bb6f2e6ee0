// Package pb owns the few helpers for Envoy's protobuf messages that more than one translation
// needs: the one encoding, the wrapper types, the names that clusters go by. It imports
// api/compliance and api/model alone, and knows nothing of any one resource.
package pb
