package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/source"
)

// resource is a kind as the API server serves it.
type resource struct {
	kind source.Kind
	schema.GroupVersionResource
	// clusterScoped resources stand in no namespace, and belong to the mesh whatever the discovery selectors say.
	clusterScoped bool
	// namespace is the one where a resource is looked at; empty for all that are in the mesh.
	namespace string
	// fields is the field selector of all requests.
	fields string
	// revisioned objects belong to another control plane if their label istio.io/rev says so.
	revisioned bool
	// optional resources hold the first state not back while they may not be read.
	optional bool
}

// The API groups.
const (
	core       = ""
	discovery  = "discovery.k8s.io"
	kubernetes = "networking.k8s.io"
	networking = "networking.istio.io"
	security   = "security.istio.io"
)

// resources are all that is watched. ServiceAccounts and Deployments, which a directory has too, are the business of others
// in a cluster.
func resources(o *Options) []*resource {
	builtin := func(kind source.Kind, group, name string) *resource {
		return &resource{kind: kind, GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}}
	}
	istio := func(kind source.Kind, group, name string) *resource {
		r := builtin(kind, group, name)
		r.revisioned = true
		return r
	}
	with := func(r *resource, edit func(*resource)) *resource {
		edit(r)
		return r
	}
	return []*resource{
		with(builtin(source.Namespace, core, "namespaces"), func(r *resource) { r.clusterScoped = true }),
		with(builtin(source.ConfigMap, core, "configmaps"), func(r *resource) {
			r.namespace, r.fields = o.RootNamespace, "metadata.name="+o.ConfigMap
		}),
		// Without Nodes, pods have no locality but their own labels'.
		with(builtin(source.Node, core, "nodes"), func(r *resource) { r.clusterScoped, r.optional = true, true }),
		builtin(source.Service, core, "services"),
		builtin(source.EndpointSlice, discovery, "endpointslices"),
		// A Pod that has ended means nothing; for this watch it is deleted then.
		with(builtin(source.Pod, core, "pods"), func(r *resource) { r.fields = "status.phase!=Succeeded,status.phase!=Failed" }),
		with(builtin(source.Ingress, kubernetes, "ingresses"), func(r *resource) { r.optional = true }),
		with(builtin(source.IngressClass, kubernetes, "ingressclasses"), func(r *resource) { r.clusterScoped, r.optional = true, true }),
		// Most Secrets are none of a mesh's business; without any, servers that name them stay closed.
		with(builtin(source.Secret, core, "secrets"), func(r *resource) { r.fields, r.optional = otherSecrets, true }),
		istio(source.Gateway, networking, "gateways"),
		istio(source.VirtualService, networking, "virtualservices"),
		istio(source.DestinationRule, networking, "destinationrules"),
		istio(source.ServiceEntry, networking, "serviceentries"),
		istio(source.Sidecar, networking, "sidecars"),
		istio(source.AuthorizationPolicy, security, "authorizationpolicies"),
		istio(source.PeerAuthentication, security, "peerauthentications"),
	}
}

// otherSecrets leaves out those that are surely for something else than TLS.
const otherSecrets = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,type!=kubernetes.io/dockercfg," +
	"type!=kubernetes.io/dockerconfigjson,type!=bootstrap.kubernetes.io/token"

// definitions are the CustomResourceDefinitions: of these only the names are read.
func definitions() *resource {
	return &resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		clusterScoped:        true, optional: true,
	}
}

// custom tells that the resource exists only while its CustomResourceDefinition does.
func (r *resource) custom() bool { return strings.HasSuffix(r.Group, ".istio.io") }

// selectable tells that it depends on the namespace whether an object is in the mesh.
func (r *resource) selectable() bool { return !r.clusterScoped && r.namespace == "" }
