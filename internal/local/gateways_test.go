package local

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

func gatewayChange(class string, port gatewayv1.PortNumber) source.Change {
	return source.Change{
		Key: source.Key{Kind: kinds.KubernetesGateway, Namespace: "default", Name: "edge"}, Origin: "edge.yaml:1",
		Object: &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: gatewayv1.ObjectName(class),
				Listeners: []gatewayv1.Listener{
					{Name: "http", Port: port, Protocol: gatewayv1.HTTPProtocolType},
				},
			},
		},
	}
}

// keysOf returns the changes as texts: those of objects that go with a minus.
func keysOf(changes []source.Change) []string {
	var all []string
	for _, c := range changes {
		sign := "+"
		if c.Object == nil {
			sign = "-"
		}
		all = append(all, sign+string(c.Key.Kind)+" "+c.Key.Name)
	}
	return all
}

func TestAGatewayIsDeployed(t *testing.T) {
	g := newGateways()
	changes := g.expand([]source.Change{gatewayChange("istio", 80)})
	require.Equal(t, []string{
		"+Gateway.gateway.networking.k8s.io edge", "+Deployment edge-istio", "+Service edge-istio",
		"+ServiceAccount edge-istio",
	}, keysOf(changes))
	require.Equal(t, "edge-istio", changes[1].Object.(*appsv1.Deployment).Spec.Template.Spec.ServiceAccountName)
	port := changes[2].Object.(*corev1.Service).Spec.Ports[0]
	require.Equal(t, [2]int32{80, 8080}, [2]int32{port.Port, port.TargetPort.IntVal})
	require.Equal(t, "edge.yaml:1", changes[2].Origin)

	again := g.expand([]source.Change{gatewayChange("istio", 80)})
	require.Len(t, again, 1, "what is equal is not delivered again")
	require.Equal(t, []string{"+Gateway.gateway.networking.k8s.io edge", "+Service edge-istio"},
		keysOf(g.expand([]source.Change{gatewayChange("istio", 8081)})))
	require.Equal(t, []string{
		"+Gateway.gateway.networking.k8s.io edge", "-Deployment edge-istio", "-Service edge-istio",
		"-ServiceAccount edge-istio",
	}, keysOf(g.expand([]source.Change{gatewayChange("other", 80)})))
}

func TestAGatewayWithAServiceOfItsOwnIsNotDeployed(t *testing.T) {
	kind := gatewayv1.HostnameAddressType
	c := gatewayChange("istio", 80)
	c.Object.(*gatewayv1.Gateway).Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: "mine"}}
	require.Len(t, newGateways().expand([]source.Change{c}), 1)
}

// What a user writes by the name comes first, and what was made comes back when it goes.
func TestWhatAUserWritesComesFirst(t *testing.T) {
	g := newGateways()
	k := source.Key{Kind: kinds.Service, Namespace: "default", Name: "edge-istio"}
	mine := source.Change{Key: k, Object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: k.Name}}}
	changes := g.expand([]source.Change{gatewayChange("istio", 80), mine})
	require.Equal(t, []string{
		"+Gateway.gateway.networking.k8s.io edge", "+Service edge-istio", "+Deployment edge-istio",
		"+ServiceAccount edge-istio",
	}, keysOf(changes))
	gone := g.expand([]source.Change{{Key: k}})
	require.Equal(t, []string{"-Service edge-istio", "+Service edge-istio"}, keysOf(gone))
	require.Equal(t, []string{"+Service edge-istio"}, keysOf(g.expand([]source.Change{mine})))
}
