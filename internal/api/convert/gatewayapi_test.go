package convert

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func readOne(kind kinds.Kind, o metav1.Object) Result {
	key := source.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	return New(Options{}).Convert(source.Change{Key: key, Object: o}, model.DefaultMesh())
}

// TestListenersThatAskForClientCertificatesStayClosed: Istio has an option for it, beside the field
// of the Gateway API.
func TestListenersThatAskForClientCertificatesStayClosed(t *testing.T) {
	for mode, open := range map[gatewayv1.AnnotationValue]bool{
		"": true, "SIMPLE": true, "MUTUAL": false, "OPTIONAL_MUTUAL": false, "ISTIO_MUTUAL": false, "mutual": false,
	} {
		listener := gatewayv1.Listener{
			Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, TLS: &gatewayv1.ListenerTLSConfig{
				CertificateRefs: []gatewayv1.SecretObjectReference{{Name: "s"}},
				Options:         map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{terminateModeOption: mode},
			},
		}
		result := readOne(kinds.KubernetesGateway, &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "a"},
			Spec:       gatewayv1.GatewaySpec{GatewayClassName: "istio", Listeners: []gatewayv1.Listener{listener}},
		})
		l := result.Objects[0].(*model.KubernetesGateway).Listeners[0]
		require.Equal(t, open, l.IsOpen(), "mode %q", mode)
		require.Equal(t, open, len(result.Problems) == 0, "mode %q: %v", mode, result.Problems)
	}
}

// TestHostnamesOfRoutesAreMarked: the state decides whether the route's namespace has them.
func TestHostnamesOfRoutesAreMarked(t *testing.T) {
	group, kind, port := gatewayv1.Group(kinds.NetworkingGroup), gatewayv1.Kind("Hostname"), gatewayv1.PortNumber(80)
	other := gatewayv1.Namespace("b")
	read := func(namespace *gatewayv1.Namespace) (*model.AttachedRoute, []source.Problem) {
		var ref gatewayv1.HTTPBackendRef
		ref.BackendObjectReference = gatewayv1.BackendObjectReference{
			Group: &group, Kind: &kind, Name: "api.example.com", Namespace: namespace, Port: &port,
		}
		result := readOne(kinds.HTTPRoute, &gatewayv1.HTTPRoute{
			ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "a"},
			Spec: gatewayv1.HTTPRouteSpec{
				CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "g"}}},
				Rules:           []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{ref}}},
			},
		})
		return result.Objects[0].(*model.AttachedRoute), result.Problems
	}
	route, problems := read(nil)
	require.Empty(t, problems)
	require.Equal(t, []model.ForeignHost{{Host: "api.example.com"}}, route.Foreign)
	require.Equal(t, model.Host("api.example.com"), route.HTTP[0].Destinations[0].Host)

	route, problems = read(&other)
	require.Len(t, problems, 1)
	require.False(t, route.ResolvedRefs.Status)
	require.Empty(t, route.HTTP[0].Destinations[0].Host)
}
