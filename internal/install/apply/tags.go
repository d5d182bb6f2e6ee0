package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tagManager is the name under which fields of tags are owned, so that they are told apart from
// what is installed with a revision.
const tagManager = "lateen-tag"

// Replace makes the labels and the content of an object those of another one, in one write, or
// creates it. Nothing of Helm's or of an installation's stays that would let them remove it.
func (c *Cluster) Replace(ctx context.Context, o *unstructured.Unstructured) error {
	live, err := c.get(ctx, o)
	if err != nil {
		return err
	}
	client, err := c.on(o, o.GetNamespace())
	if err != nil {
		return err
	}
	next := o.DeepCopy()
	if live == nil {
		_, err = client.Create(ctx, next, metav1.CreateOptions{FieldManager: tagManager})
	} else {
		next.SetResourceVersion(live.GetResourceVersion())
		keepAssigned(next, live)
		_, err = client.Update(ctx, next, metav1.UpdateOptions{FieldManager: tagManager})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Name(o), err)
	}
	return nil
}

// keepAssigned keeps the addresses of a Service, which do not change.
func keepAssigned(next, live *unstructured.Unstructured) {
	if next.GetKind() != "Service" {
		return
	}
	for _, field := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
		if value, set, _ := unstructured.NestedFieldCopy(live.Object, "spec", field); set {
			_ = unstructured.SetNestedField(next.Object, value, "spec", field)
		}
	}
}

// Remove removes an object. It is no error if it is gone.
func (c *Cluster) Remove(ctx context.Context, o *unstructured.Unstructured) error {
	return c.remove(ctx, o)
}

// ListIn returns the objects of a kind in a namespace that labels select.
func (c *Cluster) ListIn(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string,
) ([]unstructured.Unstructured, error) {
	client, _, err := c.GetClientFor(kind.GroupVersion().String(), kind.Kind)
	if err != nil {
		return nil, err
	}
	all, err := client.Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// PodMetadata returns the metadata of the Pods of a namespace that labels select and that have not
// ended; of all namespaces for an empty name.
func (c *Cluster) PodMetadata(ctx context.Context, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	list, err := c.names.Resource(pods).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: "status.phase!=Succeeded,status.phase!=Failed",
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
