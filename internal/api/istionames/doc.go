// Package istionames owns the table of Istio's annotations and labels (istio.io/api, annotation and
// label) and of the fields of a node's metadata: which of them are in force, and why the others are
// not. It imports nothing of Lateen.
package istionames

// Version is the release of Istio whose configuration proxies take. Lateen's agent states it
// (ISTIO_VERSION).
const Version = "1.31.0"
