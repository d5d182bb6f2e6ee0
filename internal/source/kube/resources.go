package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// resource is a kind as the API server serves it.
type resource struct {
	kind kinds.Kind
	schema.GroupVersionResource
	// versions are those in which the API server is asked for it, one after the other.
	versions []string
	// reported is set for kinds that Lateen does not read. Of each object only the metadata is
	// requested, and a problem says that the object is not in force.
	reported bool
	// custom is set for resources that exist only while their CustomResourceDefinition does.
	custom bool
	// clusterScoped is set for resources without a namespace. They belong to the mesh whatever the
	// discovery selectors say.
	clusterScoped bool
	// namespace is the only one in which the resource is watched; empty for all that are in the
	// mesh.
	namespace string
	watch     kinds.Watch
	// builtin says how to read objects of Kubernetes' own kinds.
	builtin builtin
	// labels is the label selector of all requests.
	labels string
	// tags is set for resources whose objects are revision tags. They are not delivered.
	tags bool
}

// resources returns everything that is watched.
func resources(o *Options) []*resource {
	var all []*resource
	builtins := builtins()
	for _, d := range kinds.Watched() {
		r := &resource{
			kind:                 d.Kind,
			GroupVersionResource: d.GroupVersionResource(),
			versions:             d.Versions[:1],
			custom:               d.Custom,
			clusterScoped:        d.ClusterScoped,
			watch:                d.Watch,
			builtin:              builtins[d.Kind],
		}
		if d.Watch.MeshConfigOnly {
			r.only(o.RootNamespace, o.ConfigMap)
			fetched := *r
			fetched.only(o.RootNamespace, kinds.KeySetsConfigMap(o.ConfigMap))
			all = append(all, &fetched)
		}
		if d.Kind == kinds.Secret && len(o.SecretNamespaces) > 0 {
			all = append(all, r.inEach(o.SecretNamespaces)...)
			continue
		}
		all = append(all, r)
	}
	for _, d := range kinds.Reported() {
		all = append(all, &resource{
			kind:                 d.Kind,
			GroupVersionResource: d.GroupVersionResource(),
			versions:             d.Versions,
			reported:             true,
			custom:               true,
			watch:                d.Watch,
		})
	}
	return all
}

// only limits a resource to one object.
func (r *resource) only(namespace, name string) {
	r.namespace, r.watch.Fields = namespace, metav1.ObjectNameField+"="+name
}

// inEach returns the resource once for each namespace.
func (r *resource) inEach(namespaces []string) []*resource {
	var all []*resource
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		one := *r
		one.namespace = namespace
		all = append(all, &one)
	}
	return all
}

// definitions returns the CustomResourceDefinitions. Only their names are read.
func definitions() *resource {
	return &resource{
		GroupVersionResource: schema.GroupVersionResource{
			Group:    "apiextensions.k8s.io",
			Version:  "v1",
			Resource: "customresourcedefinitions",
		},
		versions:      []string{"v1"},
		clusterScoped: true,
		watch:         kinds.Watch{Optional: true},
	}
}

// metadataOnly reports whether only the metadata of objects is requested.
func (r *resource) metadataOnly() bool { return r.reported || r.isMetadata() }

// isMetadata reports whether nothing but the metadata of objects has a meaning. The client of the
// group of Services decodes whole objects, so those are requested whole.
func (r *resource) isMetadata() bool { return r.kind == "" && r.Group != corev1.GroupName }

// in returns the resource's group in one of its versions.
func (r *resource) in(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: r.Group, Version: version}
}

// selectable reports whether the namespace decides if an object is in the mesh.
func (r *resource) selectable() bool { return !r.clusterScoped && r.namespace == "" }
