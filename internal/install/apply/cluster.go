package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// manager is the name under which fields are owned.
const manager = "lateen-install"

// OwnerLabel is on each object that is applied; its value is the revision.
const OwnerLabel = "install.lateen.io/revision"

// The label, and its value, by which objects are told apart.
const (
	partOf = "app.kubernetes.io/part-of"
	lateen = "lateen"
)

// ErrNoKind says that the cluster does not know a kind.
var ErrNoKind = errors.New("the cluster has no kind")

// Cluster is where objects are applied.
type Cluster struct {
	objects dynamic.Interface
	names   metadata.Interface
	mapper  meta.ResettableRESTMapper
}

// New returns the cluster of a configuration.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100 // some hundred requests, once
	config.WarningHandler = rest.NoWarnings{}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	names, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{objects, names, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}, nil
}

// GetClientFor implements render.Lookup.
func (c *Cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	mapping, err := c.mapping(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil, false, err
	}
	return c.objects.Resource(mapping.Resource), mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

func (c *Cluster) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w %s of %s", ErrNoKind, kind.Kind, kind.GroupVersion())
	}
	return mapping, err
}

// List returns all objects of a kind. The error is ErrNoKind if the cluster does not know it.
func (c *Cluster) List(ctx context.Context, apiVersion, kind string) (*unstructured.UnstructuredList, error) {
	client, _, err := c.GetClientFor(apiVersion, kind)
	if err != nil {
		return nil, err
	}
	return client.List(ctx, metav1.ListOptions{})
}

// Get returns an object. The error is ErrNoKind if the cluster does not know its kind.
func (c *Cluster) Get(
	ctx context.Context, apiVersion, kind string, of types.NamespacedName,
) (*unstructured.Unstructured, error) {
	client, namespaced, err := c.GetClientFor(apiVersion, kind)
	if err != nil {
		return nil, err
	}
	if !namespaced {
		return client.Get(ctx, of.Name, metav1.GetOptions{})
	}
	return client.Namespace(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
}

// Secrets returns the names of the Secrets of a namespace with labels. Their content is not read.
func (c *Cluster) Secrets(ctx context.Context, namespace, selector string) ([]string, error) {
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	list, err := c.names.Resource(secrets).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	return all, nil
}

// on returns the client of an object's kind in a namespace, which is ignored if the kind has none.
func (c *Cluster) on(o *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	all, namespaced, err := c.GetClientFor(o.GetAPIVersion(), o.GetKind())
	if err != nil || !namespaced {
		return all, err
	}
	return all.Namespace(namespace), nil
}

// get returns the object in the cluster, nil if there is none.
func (c *Cluster) get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := c.on(o, o.GetNamespace())
	if err != nil {
		return nil, err
	}
	live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name(o), err)
	}
	return live, nil
}

// Name names an object for people.
func Name(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
