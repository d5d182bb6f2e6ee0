package kube

import "k8s.io/apimachinery/pkg/runtime/schema"

// Read is a resource that the source lists and watches: what it must be allowed to.
type Read struct {
	schema.GroupVersionResource
	// Namespace is the only one where it does; empty for all.
	Namespace string
}

// Reads are all resources that a source with a root namespace reads.
func Reads(rootNamespace string) []Read {
	var all []Read
	for _, r := range append(resources(&Options{RootNamespace: rootNamespace}), definitions()) {
		all = append(all, Read{r.GroupVersionResource, r.namespace})
	}
	return all
}
