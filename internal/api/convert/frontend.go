package convert

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// frontend reads which certificates of clients the listeners of HTTPS accept. What cannot be read
// closes them: open, they would take anybody.
func (r *reader) frontend(p path, in *gatewayv1.GatewayTLSConfig) []model.ClientValidation {
	if in == nil || in.Frontend == nil {
		return nil
	}
	out := []model.ClientValidation{r.clientValidation(p.dot("default.validation"), in.Frontend.Default.Validation)}
	for i, port := range in.Frontend.PerPort {
		at := p.dot("perPort").at(i)
		one := r.clientValidation(at.dot("tls.validation"), port.TLS.Validation)
		number, ok := r.port(at.dot("port"), int64(port.Port))
		if !ok || slices.ContainsFunc(out[1:], func(v model.ClientValidation) bool { return v.Port == number }) {
			continue
		}
		one.Port = number
		out = append(out, one)
	}
	return out
}

func (r *reader) clientValidation(p path, in *gatewayv1.FrontendTLSValidation) model.ClientValidation {
	out := model.ClientValidation{ResolvedRefs: accepted(string(gatewayv1.ListenerReasonResolvedRefs))}
	if in == nil {
		return out
	}
	out.Verifies = true
	switch in.Mode {
	case "", gatewayv1.AllowValidOnly:
	case gatewayv1.AllowInsecureFallback:
		out.AnyClient = true
		r.warn(p.dot("mode"), in.Mode, "lets clients in that have no valid certificate", "AllowValidOnly")
	default:
		r.fail(p.dot("mode"), in.Mode, "is no mode; clients need a valid certificate",
			"AllowValidOnly or AllowInsecureFallback")
	}
	for i, ref := range in.CACertificateRefs {
		at := p.dot("caCertificateRefs").at(i)
		name := model.ObjectName{Namespace: r.meta.Namespace, Name: string(ref.Name)}
		if ref.Namespace != nil {
			name.Namespace = string(*ref.Namespace)
		}
		switch {
		case ref.Group != "" || ref.Kind != "ConfigMap":
			out.ResolvedRefs = r.badAuthorities(
				at.dot("kind"), ref.Kind, string(gatewayv1.ListenerReasonInvalidCACertificateKind),
			)
		case !isObjectName(name.Name) || !isName(name.Namespace):
			out.ResolvedRefs = r.badAuthorities(
				at.dot("name"), ref.Name, string(gatewayv1.ListenerReasonInvalidCACertificateRef),
			)
		default:
			out.Bundles = append(out.Bundles, name)
		}
	}
	if len(in.CACertificateRefs) == 0 {
		out.ResolvedRefs = r.badAuthorities(
			p.dot("caCertificateRefs"), "", string(gatewayv1.ListenerReasonInvalidCACertificateRef),
		)
	}
	return out
}

// clientCertificate reads which certificate a Gateway presents to servers. One that cannot be named
// closes the servers that want TLS.
func (r *reader) clientCertificate(p path, in *gatewayv1.GatewayTLSConfig, g *model.KubernetesGateway) {
	if in == nil || in.Backend == nil || in.Backend.ClientCertificateRef == nil {
		return
	}
	g.ResolvedRefs = accepted(string(gatewayv1.GatewayReasonResolvedRefs))
	ref := in.Backend.ClientCertificateRef
	g.Presents = model.ObjectName{Namespace: r.meta.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil {
		g.Presents.Namespace = string(*ref.Namespace)
	}
	core := ref.Group == nil || *ref.Group == ""
	secret := ref.Kind == nil || *ref.Kind == "Secret"
	if core && secret && isObjectName(g.Presents.Name) && isName(g.Presents.Namespace) {
		return
	}
	const message = "is no Secret; Services with a BackendTLSPolicy are closed"
	r.fail(p, ref.Name, message, "the name of a Secret with a certificate and its key")
	g.Presents = model.ObjectName{Namespace: r.meta.Namespace, Name: model.NoSecret}
	g.ResolvedRefs = model.Condition{
		Reason: string(gatewayv1.GatewayReasonInvalidClientCertificateRef), Message: string(p) + ": " + message,
	}
}
