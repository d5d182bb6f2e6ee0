package convert

import (
	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// proxyHeaders reads which headers proxies set. A field with a mistake leaves the standard.
// metadataExchangeHeaders asks for what always holds: who calls is told within the mesh alone.
func (r *reader) proxyHeaders(p path, in *mesh.ProxyConfig_ProxyHeaders) model.ProxyHeaders {
	details := in.GetSetCurrentClientCertDetails()
	out := model.ProxyHeaders{
		Details: model.ClientCertDetails{
			NoSubject: refused(details.GetSubject()),
			NoDNS:     refused(details.GetDns()),
			NoURI:     refused(details.GetUri()),
			Cert:      details.GetCert().GetValue(),
			Chain:     details.GetChain().GetValue(),
		},
		Server:         in.GetServer().GetValue(),
		KeepsServer:    in.GetServer().GetDisabled().GetValue(),
		NoRequestID:    in.GetRequestId().GetDisabled().GetValue(),
		NoAttemptCount: in.GetAttemptCount().GetDisabled().GetValue(),
		NoEnvoyHeaders: in.GetEnvoyDebugHeaders().GetDisabled().GetValue(),
		KeepsCase:      in.GetPreserveHttp1HeaderCase().GetValue(),
		ForwardedHost:  in.GetXForwardedHost().GetEnabled().GetValue(),
		ForwardedPort:  in.GetXForwardedPort().GetEnabled().GetValue(),
	}
	if how := in.GetForwardedClientCert(); how != mesh.ForwardClientCertDetails_UNDEFINED {
		header, known := model.ClientCertHeaderOf(how.String())
		if out.Inbound, out.SetsInbound = header, known; !known {
			out.Inbound = 0
			r.fail(
				p.dot("forwardedClientCert"), how, "is no way to forward certificates; APPEND_FORWARD is in force",
				model.ClientCertHeaders,
			)
		}
	}
	if hasControl(out.Server) {
		r.fail(p.dot("server.value"), nil, "has characters that no header has"+leftOutField, "text")
		out.Server = ""
	}
	return out
}

func refused(v *wrapperspb.BoolValue) bool { return v != nil && !v.GetValue() }
