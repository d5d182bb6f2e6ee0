package gateways

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Annotations of a Gateway's infrastructure that configure the proxy reach its Pods, and no others
// of istio.io.
func TestAnnotationsConfigureTheProxy(t *testing.T) {
	podOf := func(annotations map[string]string) corev1.PodTemplateSpec {
		d := deployment{GatewayDeployment: &model.GatewayDeployment{
			Gateway: model.Meta{Kind: kinds.KubernetesGateway, Namespace: "shop", Name: "edge", UID: "1"},
			Name:    "edge-istio", Class: "istio",
			Infrastructure: model.Infrastructure{
				Annotations: model.LabelsOf(annotations), Labels: model.LabelsOf(map[string]string{"team": "edge"}),
			},
		}}
		body, err := d.workload(rendered(t))
		require.NoError(t, err)
		text, err := json.Marshal(body["spec"])
		require.NoError(t, err)
		var spec struct{ Template corev1.PodTemplateSpec }
		require.NoError(t, json.Unmarshal(text, &spec))
		return spec.Template
	}
	pod := podOf(map[string]string{
		"proxy.istio.io/config":     `{"gatewayTopology":{"numTrustedProxies":2},"concurrency":3}`,
		"sidecar.istio.io/proxyCPU": "2", "sidecar.istio.io/proxyMemoryLimit": "3Gi",
		"sidecar.istio.io/logLevel": "debug", "sidecar.istio.io/proxyImage": "mine",
		"sidecar.istio.io/userVolume": `[{"name":"x","hostPath":{"path":"/"}}]`, "note": "kept",
	})
	proxy := pod.Spec.Containers[0]
	require.Equal(t, "lateen-proxy", proxy.Image)
	require.Equal(t, "2", proxy.Resources.Requests.Cpu().String())
	require.Equal(t, "3Gi", proxy.Resources.Limits.Memory().String())
	require.NotContains(t, proxy.Resources.Requests, corev1.ResourceMemory, "what annotations say is all")
	require.Contains(t, proxy.Args, "--proxyLogLevel=debug")
	config := ""
	for _, e := range proxy.Env {
		if e.Name == "PROXY_CONFIG" {
			config = e.Value
		}
	}
	require.Contains(t, config, `"numTrustedProxies":2`)
	require.Contains(t, config, `"concurrency":3`)
	require.Contains(t, pod.Annotations, "proxy.istio.io/config", "the control plane reads it too")
	require.Equal(t, "kept", pod.Annotations["note"])
	require.Equal(t, "edge", pod.Labels["team"])
	require.NotContains(t, pod.Annotations, "sidecar.istio.io/userVolume")
	for _, v := range pod.Spec.Volumes {
		require.Nil(t, v.HostPath, v.Name)
	}
	usual := podOf(nil).Spec.Containers[0].Resources
	require.Equal(t, "100m", usual.Requests.Cpu().String())
	require.Equal(t, "1Gi", usual.Limits.Memory().String())
}
