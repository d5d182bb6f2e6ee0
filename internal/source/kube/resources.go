package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// resource is a kind as the API server serves it.
type resource struct {
	kind kinds.Kind
	schema.GroupVersionResource
	// custom resources exist only while their CustomResourceDefinition does.
	custom bool
	// clusterScoped resources stand in no namespace, and belong to the mesh whatever the discovery selectors say.
	clusterScoped bool
	// namespace is the one where a resource is looked at; empty for all that are in the mesh.
	namespace string
	watch     kinds.Watch
	// builtin is how objects are read that are not custom ones.
	builtin builtin
}

// resources are all that is watched.
func resources(o *Options) []*resource {
	var all []*resource
	builtins := builtins()
	for _, d := range kinds.Watched() {
		r := &resource{
			kind:                 d.Kind,
			GroupVersionResource: d.GroupVersionResource(),
			custom:               d.Custom,
			clusterScoped:        d.ClusterScoped,
			watch:                d.Watch,
			builtin:              builtins[d.Kind],
		}
		if d.Watch.MeshConfigOnly {
			r.namespace, r.watch.Fields = o.RootNamespace, metav1.ObjectNameField+"="+o.ConfigMap
		}
		all = append(all, r)
	}
	return all
}

// definitions are the CustomResourceDefinitions: of these only the names are read.
func definitions() *resource {
	return &resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		clusterScoped:        true, watch: kinds.Watch{Optional: true},
	}
}

// selectable tells that it depends on the namespace whether an object is in the mesh.
func (r *resource) selectable() bool { return !r.clusterScoped && r.namespace == "" }
