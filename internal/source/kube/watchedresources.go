package kube

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/source"
)

// WatchedResource is a resource that the source lists and watches. It needs the rights to do so.
type WatchedResource struct {
	schema.GroupVersionResource
	// Namespace is the only one in which it does; empty for all.
	Namespace string
}

// WatchedResources returns all resources that a source with this root namespace watches. ConfigMaps
// are watched in all namespaces as far as other objects name them. The Services of revision tags
// are among all Services.
func WatchedResources(rootNamespace string) []WatchedResource {
	var all []WatchedResource
	read := append(resources(&Options{RootNamespace: rootNamespace}), definitions(), referenced(source.Key{}),
		tagWebhooks())
	for _, r := range read {
		one := WatchedResource{r.GroupVersionResource, r.namespace}
		if !slices.Contains(all, one) { // of ConfigMaps there are two watches
			all = append(all, one)
		}
	}
	return all
}
