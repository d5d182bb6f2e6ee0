package incluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const deployedGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: default}
spec:
  gatewayClassName: lateen
  infrastructure:
    labels: {team: edge}
    annotations: {networking.istio.io/service-type: ClusterIP, example.com/note: seen}
    parametersRef: {group: "", kind: ConfigMap, name: edge}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: other, port: 80, protocol: HTTP, hostname: other.test}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
`

const edgeParameters = `apiVersion: v1
kind: ConfigMap
metadata: {name: edge, namespace: default}
data:
  horizontalPodAutoscaler: |
    spec: {minReplicas: 2, maxReplicas: 5}
  podDisruptionBudget: |
    spec: {minAvailable: 1}
`

const foreignService = `apiVersion: v1
kind: Service
metadata: {name: taken-lateen, namespace: default}
spec: {selector: {app: mine}, ports: [{name: http, port: 80}]}
`

const takenGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: taken, namespace: default}
spec:
  gatewayClassName: lateen
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

// deploys: a Gateway gets its workloads, which go with it. What belongs to somebody else stays.
func (c *cluster) deploys(t *testing.T, r *replica) {
	c.apply(t, foreignService)
	c.apply(t, edgeParameters)
	c.apply(t, takenGateway)
	c.apply(t, deployedGateway)
	apps, core := c.client.AppsV1().Deployments("default"), c.client.CoreV1()
	eventually(t, func(ct require.TestingT) {
		d, err := apps.Get(t.Context(), "edge-lateen", metav1.GetOptions{})
		require.NoError(ct, err)
		require.Equal(ct, "edge", d.OwnerReferences[0].Name)
		pod := d.Spec.Template
		require.Equal(ct, "edge", pod.Labels["team"])
		require.Equal(ct, "edge", pod.Labels["gateway.networking.k8s.io/gateway-name"])
		require.Equal(ct, "gateway", pod.Annotations["inject.istio.io/templates"])
		require.Equal(ct, "seen", pod.Annotations["example.com/note"])
		require.Equal(ct, "edge-lateen", pod.Spec.ServiceAccountName)
		s, err := core.Services("default").Get(t.Context(), "edge-lateen", metav1.GetOptions{})
		require.NoError(ct, err)
		require.EqualValues(ct, "ClusterIP", s.Spec.Type)
		var ports []int32
		for _, p := range s.Spec.Ports {
			ports = append(ports, p.Port)
		}
		require.ElementsMatch(ct, []int32{15021, 80, 443}, ports)
		require.NotEqual(ct, "auto", pod.Spec.Containers[0].Image)
		h, err := c.client.AutoscalingV2().HorizontalPodAutoscalers("default").Get(t.Context(), "edge-lateen",
			metav1.GetOptions{})
		require.NoError(ct, err)
		require.EqualValues(ct, 5, h.Spec.MaxReplicas)
		_, err = c.client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "edge-lateen",
			metav1.GetOptions{})
		require.NoError(ct, err)
		g := &gatewayv1.Gateway{}
		c.read(ct, deployedGateway, g)
		requireCondition(ct, g.Status.Conditions, "Programmed True Programmed", 1)
		require.Equal(ct, "edge-lateen.default.svc.cluster.local", g.Status.Addresses[0].Value)
		require.Positive(ct, r.metric(`lateen_gateway_objects_total{result="foreign"}`))
		taken := &gatewayv1.Gateway{}
		c.read(ct, takenGateway, taken)
		requireCondition(ct, taken.Status.Conditions, "lateen.io/Deployed False ManagedElsewhere", 1)
	})
	s, err := core.Services("default").Get(t.Context(), "taken-lateen", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"app": "mine"}, s.Spec.Selector)

	for _, name := range []string{deployedGateway, takenGateway} {
		o := object(t, name)
		require.NoError(t, c.on(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
	}
	eventually(t, func(ct require.TestingT) {
		_, err := apps.Get(t.Context(), "edge-lateen", metav1.GetOptions{})
		require.True(ct, apierrors.IsNotFound(err), "%v", err)
		_, err = core.Services("default").Get(t.Context(), "edge-lateen", metav1.GetOptions{})
		require.True(ct, apierrors.IsNotFound(err), "%v", err)
	})
}
