package install

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestManifests compares what is installed with testdata: a change of rights is to be seen in a
// review.
func TestManifests(t *testing.T) {
	for name, o := range map[string]Options{
		"default": {Namespace: "istio-system", Image: "registry.example.com/lateen:v1", Replicas: 2},
		"canary":  {Namespace: "mesh", Revision: "canary", Image: "registry.example.com/lateen:v2", Replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o.WebhookName, o.WebhookPath = "validation.lateen.io", "/validate"
			o.InjectName, o.InjectPath = "injection.lateen.io", "/inject"
			var got bytes.Buffer
			require.NoError(t, Write(&got, Objects(o)))
			golden.File(t, filepath.Join("testdata", name+".yaml"), got.String())
		})
	}
}

func TestServerNames(t *testing.T) {
	require.Equal(t, []string{"istiod.istio-system.svc", "lateen.istio-system.svc"},
		NamesOf("istio-system", "default").ServerNames())
	require.Equal(t, []string{"istiod-canary.mesh.svc", "istiod.mesh.svc", "lateen.mesh.svc"},
		NamesOf("mesh", "canary").ServerNames())
}

// TestNetworkPolicyAllowsThePortsOfTheService also checks that it allows no other port.
func TestNetworkPolicyAllowsThePortsOfTheService(t *testing.T) {
	o := Options{Namespace: "mesh", Revision: "canary"}
	policy := o.networkPolicy().(*networkingv1.NetworkPolicy)
	var allowed, served []int
	for _, p := range policy.Spec.Ingress[0].Ports {
		allowed = append(allowed, p.Port.IntValue())
	}
	for _, p := range o.service().(*corev1.Service).Spec.Ports {
		served = append(served, p.TargetPort.IntValue())
	}
	require.ElementsMatch(t, served, allowed)
	require.NotContains(t, allowed, portHealth)
	pod := labels.Set(o.podLabels())
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	require.NoError(t, err)
	require.True(t, selector.Matches(pod))
	require.False(t, selector.Matches(labels.Set(Options{}.podLabels())), "pods of another revision")
}
