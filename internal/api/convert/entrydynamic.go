package convert

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// dynamicResolution returns how a host of resolution DYNAMIC_DNS is resolved. One that is no
// wildcard is known and has no endpoints.
func (r *reader) dynamicResolution(p path, host model.Host) model.Resolution {
	if !host.IsWildcard() {
		r.fail(p, host, "is no wildcard, which resolution DYNAMIC_DNS is for; it has no endpoints",
			`a wildcard as "*.example.com", or resolution DNS`)
		return model.EDS
	}
	return model.DynamicDNS
}

// dynamicPort reports whether a port can be one of resolution DYNAMIC_DNS: its clients say which
// name they call, and the proxy calls that at the same port.
func (r *reader) dynamicPort(p path, in *networking.ServicePort, protocol model.Protocol) bool {
	if !protocol.IsHTTP() && protocol != model.TLS {
		r.fail(p.dot("protocol"), in.GetProtocol(),
			"tells no name, which resolution DYNAMIC_DNS looks up; the port is not in force",
			"HTTP, HTTP2, GRPC or TLS")
		return false
	}
	if target := in.GetTargetPort(); target != 0 && target != in.GetNumber() {
		r.fail(p.dot("targetPort"), target,
			"is another port than number: resolution DYNAMIC_DNS calls the port that was called; "+
				"the port is not in force",
			"no targetPort")
		return false
	}
	return true
}

// noneForNames reports a list of addresses or endpoints that resolution DYNAMIC_DNS does not take.
func (r *reader) noneForNames(p path, n int) {
	if n > 0 {
		r.fail(p, nil, "is set, but resolution DYNAMIC_DNS calls what the names resolve to", "resolution STATIC or DNS")
	}
}
