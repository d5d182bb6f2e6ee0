// Package install owns how Lateen is installed in a cluster: the names of what belongs to it there,
// what it may do, and the manifests that make it so.
//
//	Options ──► Names ──► Objects ──► YAML
//
// A control plane that runs finds its own things by the same Names. What it may do is the least
// that it needs: it reads the kinds that it translates, writes statuses of Istio's kinds, and
// otherwise touches objects of its own only, by their names.
//
// It may import api/kinds, and source/kube, which says what it reads.
package install
