package convert

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A Gateway's annotations may configure its proxy; those that would choose what runs, or where its
// configuration comes from, are told and left out.
func TestAnnotationsOfInfrastructureConfigureTheProxy(t *testing.T) {
	const config = "proxy.istio.io/config"
	for _, c := range []struct {
		key, value, want string
		told             string // the path of the problem below the annotation; "-" for none
	}{
		{config, "concurrency: 2\ngatewayTopology:\n  numTrustedProxies: 1\n",
			`{"concurrency":2,"gatewayTopology":{"numTrustedProxies":1}}`, "-"},
		{config, `{"proxyMetadata": {"ISTIO_META_HTTP10": "1"}}`, `{"proxyMetadata":{"ISTIO_META_HTTP10":"1"}}`, "-"},
		{config, "binaryPath: /bin/sh", "", ".binaryPath"},
		{config, "image: {imageType: debug}\nconcurrency: 1", "", ".image"},
		{config, "discovery_address: else.where:15012", "", ".discovery_address"},
		{config, "proxyMetadata: {CA_ADDR: else.where}", "", `.proxyMetadata["CA_ADDR"]`},
		{config, "concurrency: [", "", ""},
		{"sidecar.istio.io/proxyCPU", "2", "2", "-"},
		{"sidecar.istio.io/proxyImage", "mine", "mine", ""},
		{"networking.istio.io/exportTo", ".", ".", "-"},
		{"example.com/note", "a", "a", "-"},
		{"example.com/note", "a\nb", "", ""},
	} {
		result := readOne(kinds.KubernetesGateway, &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "a"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "istio",
				Listeners:        []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
				Infrastructure: &gatewayv1.GatewayInfrastructure{
					Annotations: map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{
						gatewayv1.AnnotationKey(c.key): gatewayv1.AnnotationValue(c.value),
					},
				},
			},
		})
		got, _ := result.Objects[0].(*model.KubernetesGateway).Infrastructure.Annotations.Get(c.key)
		require.Equal(t, c.want, got, c.value)
		if c.told == "-" {
			require.Empty(t, result.Problems, c.value)
			continue
		}
		require.Len(t, result.Problems, 1, c.value)
		require.Equal(t, `spec.infrastructure.annotations["`+c.key+`"]`+c.told, result.Problems[0].Path)
		require.NotEmpty(t, result.Problems[0].Want)
	}
}
