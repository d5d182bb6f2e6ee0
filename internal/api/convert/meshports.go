package convert

import (
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// meshInbound reads how calls come to workloads, and where intercepted connections come to proxies.
// A wrong port leaves the default.
func (r *reader) meshInbound(p path, in *mesh.MeshConfig, out *model.MeshConfig) {
	policy, at := in.GetInboundTrafficPolicy(), p.dot("inboundTrafficPolicy.mode")
	switch v := policy.GetMode(); v {
	case mesh.MeshConfig_InboundTrafficPolicy_PASSTHROUGH:
	case mesh.MeshConfig_InboundTrafficPolicy_LOCALHOST:
		out.LocalhostInbound = true
	default:
		r.fail(at, v, "is no mode; PASSTHROUGH is in force", "PASSTHROUGH or LOCALHOST")
	}
	out.OutboundPort = r.listenPort(p.dot("proxyListenPort"), in.GetProxyListenPort(), model.StandardOutboundPort)
	out.InboundPort = r.listenPort(p.dot("proxyInboundListenPort"), in.GetProxyInboundListenPort(),
		model.StandardInboundPort)
	if out.InboundPort != 0 && out.InboundPort == out.OutboundPort {
		r.fail(p.dot("proxyInboundListenPort"), out.InboundPort, "is also proxyListenPort; 15006 is in force",
			"a port of its own")
		out.InboundPort = 0
	}
}

// listenPort reads a port of proxies; 0 stands for the default.
func (r *reader) listenPort(p path, number int32, byDefault uint16) uint16 {
	if number == 0 || number == int32(byDefault) {
		return 0
	}
	port, ok := r.port(p, int64(number))
	if ok && model.IsProxyPort(port) {
		r.fail(p, port, "is another port of proxies; the default is in force", "a port that nothing else has")
		return 0
	}
	return port
}
