// Package mirror makes EndpointSlices of the Endpoints in manifests, as the control plane of
// Kubernetes does in a cluster: for Services without a selector. It may import api/kinds and
// source.
package mirror
