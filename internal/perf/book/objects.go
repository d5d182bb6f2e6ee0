package book

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is an object that the test has created.
type object struct {
	resource schema.GroupVersionResource
	name     string
}

// manager is the value of the label app.kubernetes.io/managed-by of all objects.
const manager = "lateen-perf-control-plane"

// cleanTimeout is how long deleting everything may take, after the context has ended too.
const cleanTimeout = time.Minute

// createOne creates a Gateway, a Service and a VirtualService of one name.
func (t *test) createOne(ctx context.Context, name string) error {
	const istio, version = "networking.istio.io", "v1"
	host := name + "." + domain
	for _, o := range []struct {
		group, kind, resource string
		spec                  map[string]any
	}{
		{istio, "Gateway", "gateways", map[string]any{
			"selector": anyMap(t.o.GatewaySelector),
			"servers": []any{map[string]any{
				"port":  map[string]any{"number": int64(t.o.GatewayPort), "name": "http", "protocol": "HTTP"},
				"hosts": []any{host},
			}},
		}},
		{"", "Service", "services", map[string]any{
			"selector": anyMap(t.o.Selector),
			"ports": []any{map[string]any{
				"name": "http", "port": int64(80), "protocol": "TCP", "targetPort": int64(t.o.TargetPort),
			}},
		}},
		{istio, "VirtualService", "virtualservices", map[string]any{
			"hosts": []any{host}, "gateways": []any{name},
			"http": []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{
				"host": name + "." + t.o.Namespace + ".svc.cluster.local", "port": map[string]any{"number": int64(80)},
			}}}}},
		}},
	} {
		gv := schema.GroupVersion{Group: o.group, Version: version}
		made := object{gv.WithResource(o.resource), name}
		t.created = append(t.created, made) // before: the answer to a create may get lost
		_, err := t.o.Client.Resource(made.resource).Namespace(t.o.Namespace).Create(ctx,
			&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": gv.String(), "kind": o.kind, "spec": o.spec,
				"metadata": map[string]any{
					"name": name, "namespace": t.o.Namespace,
					"labels": map[string]any{"app.kubernetes.io/managed-by": manager},
				},
			}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("%s %s/%s: %w", o.kind, t.o.Namespace, name, err)
		}
	}
	return nil
}

func anyMap(labels map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range labels {
		out[k] = v
	}
	return out
}

// cleanUp deletes all that was created.
func (t *test) cleanUp(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	for _, o := range t.created {
		failed := t.o.Client.Resource(o.resource).Namespace(t.o.Namespace).Delete(ctx, o.name, metav1.DeleteOptions{})
		if failed != nil && !apierrors.IsNotFound(failed) {
			err = errors.Join(err, fmt.Errorf("%s %s/%s is left behind: %w; delete what has the label "+
				"app.kubernetes.io/managed-by=%s", o.resource.Resource, t.o.Namespace, o.name, failed, manager))
		}
	}
	return err
}
