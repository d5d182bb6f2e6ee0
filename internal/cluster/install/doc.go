// Package install owns how Lateen is installed in a cluster: the names of its objects, its
// permissions, and the manifests.
//
//	Options ──► Names ──► Objects ──► YAML
//
// A running control plane finds its own objects by the same Names. Its permissions are the least
// that it needs: it reads the kinds that it translates, writes statuses of Istio's kinds, and
// otherwise touches only its own objects, by name.
//
// It may import api/kinds, and source/kube, which says what it reads.
package install
