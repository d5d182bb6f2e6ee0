package inject

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestProxyConfigsMergeAsDocumented: the mesh's, the namespace's, the annotation, and the one that
// selects the Pod, each over the ones before; variables are merged by name.
func TestProxyConfigsMergeAsDocumented(t *testing.T) {
	injector, err := New(Options{Namespace: "istio-system"}, Texts{
		Mesh:   "defaultConfig: {concurrency: 9, proxyMetadata: {A: mesh, B: mesh}}",
		Values: "global: {hub: registry.test, tag: v1}",
	})
	require.NoError(t, err)
	config := func(workers int32, image string, variables ...string) *model.ProxyConfig {
		c := &model.ProxyConfig{ImageType: image}
		if workers >= 0 {
			c.Concurrency = &workers
		}
		for i := 0; i < len(variables); i += 2 {
			c.Environment = append(c.Environment, model.Variable{Name: variables[i], Value: variables[i+1]})
		}
		return c
	}
	whole := config(3, "debug", "A", "object", "C", "object")
	for name, test := range map[string]struct {
		objects    model.ProxyConfigs
		annotation string
		workers    float64
		image      string
		variables  map[string]string
	}{
		"without any": {
			workers: 9, image: "registry.test/proxyv2:v1", variables: map[string]string{"A": "mesh", "B": "mesh"},
		},
		"the mesh's": {
			objects: model.ProxyConfigs{Mesh: whole}, workers: 3, image: "registry.test/proxyv2:v1-debug",
			variables: map[string]string{"A": "object", "B": "mesh", "C": "object"},
		},
		"the namespace's over the mesh's": {
			objects: model.ProxyConfigs{Mesh: whole, Namespace: config(0, "", "A", "namespace")}, workers: 0,
			image:     "registry.test/proxyv2:v1-debug",
			variables: map[string]string{"A": "namespace", "B": "mesh", "C": "object"},
		},
		"the annotation over the namespace's": {
			objects: model.ProxyConfigs{Namespace: whole}, annotation: "{concurrency: 5, proxyMetadata: {C: pod}}",
			workers: 5, image: "registry.test/proxyv2:v1-debug",
			variables: map[string]string{"A": "object", "B": "mesh", "C": "pod"},
		},
		"the workload's over the annotation": {
			objects: model.ProxyConfigs{
				Namespace: config(1, "distroless"), Workload: config(7, "", "C", "workload"),
			},
			annotation: "{concurrency: 5, proxyMetadata: {C: pod, D: pod}}", workers: 7,
			image:     "registry.test/proxyv2:v1-distroless",
			variables: map[string]string{"A": "mesh", "B": "mesh", "C": "workload", "D": "pod"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
			pod.Labels = map[string]string{"app": "web"}
			if test.annotation != "" {
				pod.Annotations = map[string]string{ProxyConfigAnnotation: test.annotation}
			}
			raw, err := json.Marshal(&pod)
			require.NoError(t, err)
			result, err := injector.Inject(Pod{
				JSON: raw, Namespace: "shop",
				Configs: func(namespace string, labels map[string]string) model.ProxyConfigs {
					require.Equal(t, "shop", namespace)
					require.Equal(t, map[string]string{"app": "web"}, labels)
					return test.objects
				},
			})
			require.NoError(t, err)
			var got corev1.Pod
			require.NoError(t, json.Unmarshal(result.JSON, &got))
			proxy := proxyIn(&got)
			require.Equal(t, test.image, proxy.Image)
			variables, config := map[string]string{}, map[string]any{}
			for _, v := range proxy.Env {
				if len(v.Name) == 1 {
					variables[v.Name] = v.Value
				}
				if v.Name == "PROXY_CONFIG" {
					require.NoError(t, json.Unmarshal([]byte(v.Value), &config))
				}
			}
			require.Equal(t, test.variables, variables)
			require.InDelta(t, test.workers, config["concurrency"], 0)
		})
	}
}
