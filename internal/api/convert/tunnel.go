package convert

import (
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// announces reads the version of the PROXY protocol. A mistake closes the destination: its server
// would take the proxy for the client.
func (r *reader) announces(p path, in *networking.TrafficPolicy) model.ProxyProtocol {
	if in.GetProxyProtocol() == nil {
		return model.NoProxyProtocol
	}
	for _, port := range in.GetPortLevelSettings() {
		r.warn(p.dot("proxyProtocol"), nil, "is no setting of a port, and does not hold at one that has settings "+
			"of its own", "no portLevelSettings for port "+strconv.FormatUint(uint64(port.GetPort().GetNumber()), 10))
	}
	switch v := in.GetProxyProtocol().GetVersion(); v {
	case networking.TrafficPolicy_ProxyProtocol_V1:
		return model.ProxyProtocolV1
	case networking.TrafficPolicy_ProxyProtocol_V2:
		return model.ProxyProtocolV2
	default:
		r.fail(p.dot("proxyProtocol.version"), v, "is no version; the destination is closed", "V1 or V2")
		return model.UnknownProxyProtocol
	}
}

// tunnel reads how connections go through a proxy. A mistake closes them: the proxy would get their
// bytes as they are.
func (r *reader) tunnel(p path, in *networking.TrafficPolicy) *model.Tunnel {
	t, at := in.GetTunnel(), p.dot("tunnel")
	if t == nil {
		return nil
	}
	start := r.mark()
	out := &model.Tunnel{Host: strings.TrimSuffix(t.GetTargetHost(), "."), Post: t.GetProtocol() == "POST"}
	if protocol := t.GetProtocol(); protocol != "" && protocol != "CONNECT" && !out.Post {
		r.fail(at.dot("protocol"), protocol, "is no way to tunnel; connections are closed", "CONNECT or POST")
	}
	if wrong := hostMistake(out.Host, false); wrong != "" {
		r.fail(at.dot("targetHost"), out.Host, wrong+"; connections are closed", wantTunnelled)
	}
	out.Port, _ = r.port(at.dot("targetPort"), int64(t.GetTargetPort()))
	if in.GetProxyProtocol() != nil {
		r.fail(at, nil, "is set beside proxyProtocol; connections are closed", "one of them")
	}
	if r.failure(start, at) != "" {
		return &model.Tunnel{}
	}
	return out
}

const wantTunnelled = `a host name as "www.example.com", or an IP address`
