package apply

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TryPod returns what would become of a new Pod with these labels in a namespace, as the API server
// and all its webhooks have it. Nothing is stored. The Pod asks for little and is as restricted as
// it can be, so that neither a quota nor Pod Security refuses it for its own sake.
func (c *Cluster) TryPod(ctx context.Context, namespace string, labels map[string]string,
) (*unstructured.Unstructured, error) {
	little := map[string]any{"cpu": "1m", "memory": "1Mi"}
	pod := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"securityContext": map[string]any{
			"runAsNonRoot": true, "runAsUser": int64(1000), "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
		"containers": []any{map[string]any{
			"name": "app", "image": "lateen-verify",
			"resources": map[string]any{"requests": little, "limits": little},
			"securityContext": map[string]any{
				"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
			},
		}},
	}}}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetName("lateen-verify")
	pod.SetNamespace(namespace)
	pod.SetLabels(labels)
	client, err := c.on(pod, namespace)
	if err != nil {
		return nil, err
	}
	return client.Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: manager})
}
