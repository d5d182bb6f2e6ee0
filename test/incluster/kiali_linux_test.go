package incluster

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKialiFindsTheControlPlane looks for what Kiali's server looks for: the Deployment, Pods and
// Service by their labels, its cluster in a variable, ConfigMaps, and pages of port 15014 and 8080.
func TestKialiFindsTheControlPlane(t *testing.T) {
	e := newEstate(t)
	const byRevision = "app=istiod,istio.io/rev=default"
	deployments, err := e.client.AppsV1().Deployments("").List(t.Context(),
		metav1.ListOptions{LabelSelector: "app=istiod"})
	require.NoError(t, err)
	require.Len(t, deployments.Items, 1)
	require.Equal(t, "default", deployments.Items[0].Labels["istio.io/rev"])
	pod := corev1.Pod{Spec: deployments.Items[0].Spec.Template.Spec}
	require.Equal(t, "Kubernetes", environmentOf(&pod, pod.Spec.Containers[0].Name)["CLUSTER_ID"],
		"of another cluster it would be an external control plane, which manages nothing")

	pods, err := e.client.CoreV1().Pods(root).List(t.Context(), metav1.ListOptions{LabelSelector: byRevision})
	require.NoError(t, err)
	require.NotEmpty(t, pods.Items)
	services, err := e.client.CoreV1().Services(root).List(t.Context(), metav1.ListOptions{LabelSelector: byRevision})
	require.NoError(t, err)
	require.Len(t, services.Items, 1)
	require.Equal(t, int32(15014), portNamed(services.Items[0].Spec.Ports, "http-monitoring"))
	injectors, err := e.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(t.Context(),
		metav1.ListOptions{LabelSelector: "istio.io/rev=default"})
	require.NoError(t, err)
	require.NotEmpty(t, injectors.Items)

	var values struct {
		Global map[string]any `json:"global"`
	}
	require.NoError(t, json.Unmarshal([]byte(e.configMap(t, "istio-sidecar-injector").Data["values"]), &values))
	require.NotNil(t, values.Global)
	require.Contains(t, e.configMap(t, "istio-ca-root-cert").Data["root-cert.pem"], "BEGIN CERTIFICATE")

	code, version := e.plane.fetch("monitoring", "/version")
	require.Equal(t, http.StatusOK, code)
	require.NotEmpty(t, version)
	code, _ = e.plane.fetch("health", "/ready")
	require.Equal(t, http.StatusOK, code)
	eventually(t, func(ct require.TestingT) {
		_, text := e.plane.fetch("monitoring", "/debug/syncz")
		var proxies []map[string]any
		require.NoError(ct, json.Unmarshal([]byte(text), &proxies))
		require.Len(ct, proxies, 1)
		require.Equal(ct, "web-0.default", proxies[0]["proxy"])
		require.Equal(ct, "Kubernetes", proxies[0]["cluster_id"])
		require.NotEmpty(ct, proxies[0]["istio_version"])
		for _, of := range []string{"cluster", "listener"} {
			require.NotEmpty(ct, proxies[0][of+"_sent"])
			require.Equal(ct, proxies[0][of+"_sent"], proxies[0][of+"_acked"])
		}
	})
}

func portNamed(ports []corev1.ServicePort, name string) int32 {
	for _, p := range ports {
		if p.Name == name {
			return p.Port
		}
	}
	return 0
}

func (e *estate) configMap(t *testing.T, name string) (found *corev1.ConfigMap) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		var err error
		found, err = e.client.CoreV1().ConfigMaps(root).Get(context.Background(), name, metav1.GetOptions{})
		require.NoError(ct, err)
	})
	return found
}
