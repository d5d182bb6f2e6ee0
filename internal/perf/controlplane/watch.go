package controlplane

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Watch calls each with an object as it is, and again with each change of it, in another goroutine
// until stop is called. stop returns what has ended the watch before; it may be called again.
func (c *Cluster) Watch(
	ctx context.Context, k source.Key, each func(*unstructured.Unstructured),
) (stop func() error, err error) {
	objects := c.client.Resource(kinds.Of(k.Kind).GroupVersionResource()).Namespace(k.Namespace)
	o := metav1.ListOptions{FieldSelector: "metadata.name=" + k.Name}
	list, err := objects.List(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		each(&list.Items[i])
	}
	o.ResourceVersion = list.GetResourceVersion()
	ctx, cancel := context.WithCancel(ctx)
	w, err := objects.Watch(ctx, o)
	if err != nil {
		cancel()
		return nil, err
	}
	var ended error
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended = watchObject(w, each)
		if ctx.Err() != nil {
			ended = nil // it was asked to
		}
	}()
	return func() error {
		cancel()
		w.Stop()
		<-done
		return ended
	}, nil
}

// watchObject calls each until the watch ends, and returns why it has.
func watchObject(w watch.Interface, each func(*unstructured.Unstructured)) error {
	for event := range w.ResultChan() {
		o, is := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error || !is:
			return fmt.Errorf("the API server has ended a watch: %v", event.Object)
		case event.Type != watch.Deleted:
			each(o)
		}
	}
	return errors.New("the API server has ended a watch")
}
