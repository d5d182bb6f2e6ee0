package incluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
)

// TestPodsGetTheirProxies creates Pods at a real API server, which asks the webhook as its
// configuration says: the Pods of the mesh get a proxy, and no others are touched.
func TestPodsGetTheirProxies(t *testing.T) {
	c := newCluster(t)
	r := c.start(t)
	r.ready(t)
	r.leads(t)
	c.namespace(t, "shop", map[string]string{"istio-injection": "enabled"})
	c.namespace(t, "canary", map[string]string{"istio.io/rev": "canary"})
	c.namespace(t, "other", nil)
	c.routeInjection(t, r)

	// The API server learns the webhook's roots a moment after the leader has written them.
	eventually(t, func(ct require.TestingT) {
		pod, err := c.pod("shop", "web", nil, nil)
		require.NoError(ct, err)
		require.Equal(ct, []string{"istio-init", "istio-proxy", "web"}, containersOf(pod))
		require.Equal(ct, "istio", pod.Labels["security.istio.io/tlsMode"])
	})
	for _, p := range []struct {
		name, namespace     string
		labels, annotations map[string]string
		want                []string
	}{
		{"declines", "shop", map[string]string{"sidecar.istio.io/inject": "false"}, nil, []string{"web"}},
		{"declines as before", "shop", nil, map[string]string{"sidecar.istio.io/inject": "false"}, []string{"web"}},
		{"of another revision", "canary", nil, nil, []string{"web"}},
		{"outside", "other", nil, nil, []string{"web"}},
		{
			"asks itself", "other", map[string]string{"sidecar.istio.io/inject": "true"}, nil,
			[]string{"istio-init", "istio-proxy", "web"},
		},
		{
			"names the revision", "other", map[string]string{"istio.io/rev": "default"}, nil,
			[]string{"istio-init", "istio-proxy", "web"},
		},
	} {
		pod, err := c.pod(p.namespace, strings.ReplaceAll(p.name, " ", "-"), p.labels, p.annotations)
		require.NoError(t, err, p.name)
		require.Equal(t, p.want, containersOf(pod), p.name)
	}

	_, err := c.pod("shop", "bad", nil, map[string]string{"sidecar.istio.io/proxyCPU": "fast"})
	require.ErrorContains(t, err, `admission webhook "namespace.sidecar-injector.istio.io" denied the request: `+
		"the Pod cannot be injected:\n"+
		`metadata.annotations[sidecar.istio.io/proxyCPU] = "fast"; want a quantity, as 100m or 128Mi`)

	c.injectionConfig(t,
		`{"config": "policy: sometimes", "values": "{\"global\": {\"hub\": \"broken.example.com\"}}"}`)
	eventually(t, func(ct require.TestingT) {
		require.Contains(ct, r.said(), `config: policy = \"sometimes\"; want enabled or disabled`)
	})
	pod, err := c.pod("shop", "after-a-mistake", nil, nil)
	require.NoError(t, err)
	require.Equal(t, "lateen-proxy:test", pod.Spec.InitContainers[1].Image, "the last good one stays")

	c.injectionConfig(t,
		`{"config": null, "values": "{\"global\": {\"hub\": \"registry.example.com\", \"tag\": \"v2\"}}"}`)
	eventually(t, func(ct require.TestingT) {
		pod, err := c.pod("shop", "after", nil, nil)
		require.NoError(ct, err)
		require.Equal(ct, "registry.example.com/proxyv2:v2", pod.Spec.InitContainers[1].Image)
	})
	c.injectsUnderPodSecurity(t)
	require.NotContains(t, r.said(), "forbidden", "all that it does, it may do")

	r.kill()
	_, err = c.pod("shop", "without", nil, nil)
	require.ErrorContains(t, err, "namespace.sidecar-injector.istio.io", "it would be outside of the mesh")
	_, err = c.pod("other", "without", nil, nil)
	require.NoError(t, err, "what is outside of the mesh waits for nobody")
	_, err = c.pod("shop", "declines", map[string]string{"sidecar.istio.io/inject": "false"}, nil)
	require.NoError(t, err)
}

// injectsUnderPodSecurity has Pods injected in a namespace of the strictest level: with Istio's CNI
// plugin they need no right of the network.
func (c *cluster) injectsUnderPodSecurity(t *testing.T) {
	c.namespace(t, "strict", map[string]string{
		"istio-injection": "enabled", "pod-security.kubernetes.io/enforce": "restricted",
	})
	create := func() (*corev1.Pod, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return c.client.CoreV1().Pods("strict").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot:   new(true),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "web", Image: "example.com/web:1",
					SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false),
						Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
				}},
			},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	_, err := create()
	require.ErrorContains(t, err, "NET_ADMIN")
	c.injectionConfig(t, `{"values": "{\"pilot\": {\"cni\": {\"enabled\": true}}}"}`)
	eventually(t, func(ct require.TestingT) {
		pod, err := create()
		require.NoError(ct, err)
		require.Equal(ct, []string{"istio-validation", "istio-proxy", "web"}, containersOf(pod))
	})
}

func (c *cluster) namespace(t *testing.T, name string, labels map[string]string) {
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func(ct require.TestingT) { // without it no Pod is admitted
		_, err := c.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		require.NoError(ct, err)
	})
}

// pod creates a Pod as a dry run, so that names may come again: the webhook is asked all the same.
func (c *cluster) pod(namespace, name string, labels, annotations map[string]string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func containersOf(pod *corev1.Pod) []string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
	}
	return names
}

// routeInjection lets the API server reach the injection of a replica.
func (c *cluster) routeInjection(t *testing.T, r *replica) {
	c.route(t, r)
	c.routeWebhooks(t, r, "lateen-injector-istio-system")
}

// routeWebhooks lets the webhooks of a configuration lead to a replica.
func (c *cluster) routeWebhooks(t *testing.T, r *replica, name string) {
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		configuration := c.get(t, "MutatingWebhookConfiguration", "", name)
		for _, w := range configuration.Object["webhooks"].([]any) {
			require.NoError(t, unstructured.SetNestedField(w.(map[string]any), r.port(t, "webhook"),
				"clientConfig", "service", "port"))
		}
		_, err := c.on(configuration).Update(t.Context(), configuration, metav1.UpdateOptions{})
		return err
	}))
}

// injectionConfig changes data of the ConfigMap of the injection.
func (c *cluster) injectionConfig(t *testing.T, data string) {
	c.patch(t, "ConfigMap", root, "istio-sidecar-injector", `{"data": `+data+`}`)
}
