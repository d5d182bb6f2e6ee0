package gateways

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func (r *rig) configMap(t *testing.T, namespace, name string, labels, data map[string]string) {
	t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data}
	all := r.client.CoreV1().ConfigMaps(namespace)
	_, err := all.Create(t.Context(), o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(t.Context(), o, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
}

// Parameters of the class stand below those of the Gateway. An autoscaler and a budget exist as
// long as parameters ask for them.
func TestParametersChangeWhatIsDeployed(t *testing.T) {
	r := newRig(t)
	r.configMap(t, r.root, "all", map[string]string{defaultsLabel: "lateen"}, map[string]string{
		"deployment":          `metadata: {annotations: {of: class, also: class}}`,
		"podDisruptionBudget": `spec: {minAvailable: 1}`,
	})
	r.configMap(t, r.namespace, "own", nil, map[string]string{
		"deployment": `
metadata: {annotations: {of: gateway}, name: another, ownerReferences: []}
spec:
  template:
    spec:
      containers: [{name: istio-proxy, resources: {requests: {cpu: 2}}}]
      nodeSelector: {edge: "true"}
`,
		"service":                 `spec: {externalTrafficPolicy: Local, type: NodePort}`,
		"serviceAccount":          `metadata: {annotations: {role: cloud}}`,
		"horizontalPodAutoscaler": `spec: {minReplicas: 2, maxReplicas: 5}`,
	})
	g := r.gateway(t, "edge")
	g.Parameters = "own"
	r.deploy(g)
	require.Zero(t, r.once(t, "edge"))
	d := r.deployment(t, g.Name)
	require.Equal(t, "gateway", d.Annotations["of"])
	require.Equal(t, "class", d.Annotations["also"])
	require.Equal(t, types.UID(g.Gateway.UID), d.OwnerReferences[0].UID)
	require.Equal(t, "2", d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
	require.Equal(t, "lateen-proxy", d.Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, map[string]string{"edge": "true"}, d.Spec.Template.Spec.NodeSelector)
	require.Equal(t, corev1.ServiceTypeNodePort, r.service(t, g.Name).Spec.Type)
	autoscalers := r.client.AutoscalingV2().HorizontalPodAutoscalers(r.namespace)
	h, err := autoscalers.Get(t.Context(), g.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 5, h.Spec.MaxReplicas)
	require.Equal(t, g.Name, h.Spec.ScaleTargetRef.Name)
	require.Equal(t, types.UID(g.Gateway.UID), h.OwnerReferences[0].UID)
	budgets := r.client.PolicyV1().PodDisruptionBudgets(r.namespace)
	b, err := budgets.Get(t.Context(), g.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "edge", b.Spec.Selector.MatchLabels[model.GatewayNameLabel])

	r.configMap(t, r.namespace, "own", nil, map[string]string{"podDisruptionBudget": `spec: {minAvailable: 2}`})
	require.Zero(t, r.once(t, "edge"))
	_, err = autoscalers.Get(t.Context(), g.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	b, err = budgets.Get(t.Context(), g.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, 2, b.Spec.MinAvailable.IntValue())
	require.Empty(t, r.deployment(t, g.Name).Spec.Template.Spec.NodeSelector)
}

// An autoscaler of somebody else stays where no parameters ask for one.
func TestAutoscalersOfOthersStay(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	_, err := r.client.AutoscalingV2().HorizontalPodAutoscalers(r.namespace).Patch(t.Context(), g.Name,
		types.ApplyPatchType, []byte(`{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": {"name": "edge-lateen"}, "spec": {"maxReplicas": 4,
		"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "edge-lateen"}}}`),
		metav1.PatchOptions{FieldManager: "people"})
	require.NoError(t, err)
	r.deploy(g)
	require.Zero(t, r.once(t, "edge"))
	all := r.client.AutoscalingV2().HorizontalPodAutoscalers(r.namespace)
	_, err = all.Get(t.Context(), g.Name, metav1.GetOptions{})
	require.NoError(t, err)
}

// Parameters with a mistake change nothing, and the Gateway says which it is.
func TestBadParametersAreReported(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	g.Parameters = "own"
	r.deploy(g)
	c := r.once(t, "edge")
	require.Equal(t, reasonParameters, c.Reason)
	require.Contains(t, c.Message, "there is no ConfigMap own in namespace "+r.namespace)
	g.Parameters, g.Mistake = "", "the reference names a Secret"
	r.deploy(g)
	c = r.once(t, "edge")
	require.Equal(t, reasonParameters, c.Reason)
	require.Equal(t, g.Mistake, c.Message)
	g.Parameters, g.Mistake = "own", ""
	r.deploy(g)
	pod := func(spec string) string { return "spec: {template: {spec: {" + spec + "}}}" }
	container := func(security string) string {
		return pod("containers: [{name: a, securityContext: {" + security + "}}]")
	}
	for text, want := range map[string]string{
		"spec: [":                                        "ConfigMap " + r.namespace + "/own, key deployment: ",
		pod("hostNetwork: true"):                         "spec.template.spec.hostNetwork",
		pod("serviceAccountName: root"):                  "serviceAccountName",
		pod("containers: 5"):                             "",
		container("privileged: true"):                    "privileged",
		container("capabilities: {add: [ALL]}"):          "capabilities.add",
		pod("volumes: [{name: a, hostPath: {path: /}}]"): "hostPath",
	} {
		r.configMap(t, r.namespace, "own", nil, map[string]string{"deployment": text})
		c := r.once(t, "edge")
		require.Equal(t, reasonParameters, c.Reason, "%s: %s", text, c.Message)
		require.Contains(t, c.Message, want)
	}
	refused := func(key, text, want string) {
		r.configMap(t, r.namespace, "own", nil, map[string]string{key: text})
		c := r.once(t, "edge")
		require.Equal(t, reasonParameters, c.Reason, "%s: %s", text, c.Message)
		require.Contains(t, c.Message, want)
	}
	others := map[[2]string]string{} // with these, the Deployment is applied
	for of, want := range refusedParameters() {
		switch {
		case want == "":
		case of[0] == "deployment":
			refused(of[0], of[1], want)
		default:
			others[of] = want
		}
	}
	_, err := r.client.AppsV1().Deployments(r.namespace).Get(t.Context(), g.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	for of, want := range others {
		refused(of[0], of[1], want)
	}
}

// A Gateway may ask for an address of a load balancer.
func TestAddressOfALoadBalancer(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	g.ServiceType, g.Address = "LoadBalancer", "192.0.2.7"
	r.deploy(g)
	require.Zero(t, r.once(t, "edge"))
	require.Equal(t, "192.0.2.7", r.service(t, g.Name).Spec.LoadBalancerIP)
}

// Pods never run as an account that is not the Gateway's own.
func TestNoDeploymentRunsAsAnAccountOfOthers(t *testing.T) {
	r := newRig(t)
	g := r.gateway(t, "edge")
	accounts := r.client.CoreV1().ServiceAccounts(r.namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: g.Name}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	r.deploy(g)
	c := r.once(t, "edge")
	require.Equal(t, reasonForeign, c.Reason)
	require.Contains(t, c.Message, "Deployment edge-lateen: "+errNoAccount.Error())
	_, err = r.client.AppsV1().Deployments(r.namespace).Get(t.Context(), g.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Len(t, r.service(t, g.Name).Spec.Ports, 3, "the other objects go on")

	require.NoError(t, accounts.Delete(t.Context(), g.Name, metav1.DeleteOptions{}))
	require.Zero(t, r.once(t, "edge"))
	require.Equal(t, g.Name, r.deployment(t, g.Name).Spec.Template.Spec.ServiceAccountName)
}
