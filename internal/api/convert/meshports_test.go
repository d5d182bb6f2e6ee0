package convert

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestProxiesListenWhereInjectionRedirects: the control plane and the injection read the two ports
// alike, also where they are wrong.
func TestProxiesListenWhereInjectionRedirects(t *testing.T) {
	ports := []int32{-1, 0, 1, 15000, 15001, 15006, 15021, 15101, 15106, 65535, 65536}
	for _, outbound := range ports {
		for _, inbound := range ports {
			var out model.MeshConfig
			(&reader{}).meshInbound("mesh", &mesh.MeshConfig{
				ProxyListenPort: outbound, ProxyInboundListenPort: inbound,
			}, &out)
			wantOut, wantIn := model.ListenPorts(outbound, inbound)
			require.Equal(t, wantOut, cmp.Or(out.OutboundPort, model.StandardOutboundPort), "%d %d", outbound, inbound)
			require.Equal(t, wantIn, cmp.Or(out.InboundPort, model.StandardInboundPort), "%d %d", outbound, inbound)
		}
	}
}
