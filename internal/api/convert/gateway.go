package convert

import (
	"fmt"
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// gateway gives nothing if the selector is unusable: it might open ports on more proxies than it
// names.
func (r *reader) gateway(in *networkingv1.Gateway) []Object {
	spec := &in.Spec
	p := path("spec")
	g := &model.Gateway{Meta: r.meta}
	if r.meta.Name == model.Mesh {
		r.warn("metadata.name", model.Mesh,
			"means the sidecars where a VirtualService lists it in gateways, not this Gateway",
			fmt.Sprintf("another name, or %q in VirtualServices", r.meta.Namespace+"/"+model.Mesh))
	}
	selector, usable := r.selector(p.dot("selector"), spec.GetSelector())
	g.Selector = selector
	for i, server := range spec.GetServers() {
		g.Servers = append(g.Servers, r.gatewayServer(p.dot("servers").at(i), server))
		r.portNames(p.dot("servers").at(i), g.Servers)
	}
	if len(g.Servers) == 0 {
		r.warn(p.dot("servers"), nil, "is empty, so the gateway opens nothing", "at least one server")
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{g}
}

func (r *reader) gatewayServer(p path, in *networking.Server) model.GatewayServer {
	start := r.mark()
	out := model.GatewayServer{Name: in.GetName()}
	if out.Name == "" {
		out.Name = in.GetPort().GetName()
	}
	r.gatewayBind(p, in, &out)
	r.gatewayProtocol(p, in, &out)
	out.Redirect = out.TLS == nil && in.GetTls().GetHttpsRedirect()
	out.Broken = r.failure(start, p)
	out.Hosts = r.gatewayHosts(p.dot("hosts"), in.GetHosts())
	if len(out.Hosts) == 0 && out.Broken == "" {
		out.Broken = "hosts: none that can be taken"
	}
	return out
}

// portNames closes the last server if an earlier one of the Gateway has its port and name. Together
// they name a route table.
func (r *reader) portNames(p path, servers []model.GatewayServer) {
	last := &servers[len(servers)-1]
	if last.TLS == nil || last.Broken != "" {
		return
	}
	for _, s := range servers[:len(servers)-1] {
		if s.TLS != nil && s.Port == last.Port && s.Bind == last.Bind && (s.Port != 0 || s.Bind != "") &&
			s.PortName == last.PortName {
			r.fail(
				p.dot("port.name"), last.PortName, "is the name of an earlier server; the server stays closed",
				"a name that no other server of the Gateway has",
			)
			last.Broken = "port.name: is the name of an earlier server"
			return
		}
	}
}

// gatewayHosts reads hosts. A wrong one is left out and does not affect the others.
func (r *reader) gatewayHosts(p path, list []string) []model.ScopedHost {
	if len(list) == 0 {
		r.fail(p, nil, "is empty; the server stays closed", `at least one host, as "*" or "shop.example.com"`)
	}
	var out []model.ScopedHost
	for i, text := range list {
		if h, ok := r.scopedHost(p.at(i), text, "*"); ok {
			out = append(out, h)
		}
	}
	return out
}

// gatewayBind reads where a server listens: its port, and the address if it is not all of the
// workload's. A wrong address closes the server: elsewhere it would take other connections.
func (r *reader) gatewayBind(p path, in *networking.Server, out *model.GatewayServer) {
	text, number := in.GetBind(), int64(in.GetPort().GetNumber())
	at := p.dot("bind")
	if socket, unix := strings.CutPrefix(text, "unix://"); unix {
		if number != 0 {
			r.fail(p.dot("port.number"), number, "is set beside a Unix socket; the server stays closed", "0")
		}
		r.unixSocket(at, text, socket)
		out.Bind = text
		return
	}
	out.Port, _ = r.port(p.dot("port.number"), number)
	if text == "" {
		return
	}
	bind, ok := r.address(at, text)
	if !ok || netip.MustParseAddr(bind).IsUnspecified() {
		return
	}
	if model.IsProxyPort(out.Port) {
		r.fail(p.dot("port.number"), number, "is a port of the proxy itself", wantAppPort)
	}
	out.Bind = bind
}

// gatewayProtocol reads the protocol that the proxy sees, and the TLS around it. A mistake closes
// the server: in plaintext it would expose what was meant to be protected.
func (r *reader) gatewayProtocol(p path, in *networking.Server, out *model.GatewayServer) {
	word := in.GetPort().GetProtocol()
	protocol, known := parseProtocol(word)
	out.Protocol = protocol
	switch {
	case !known || protocol == model.UDP:
		r.fail(
			p.dot("port.protocol"), word, "is no protocol of gateways",
			"one of HTTP, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, MONGO",
		)
	case protocol == model.TLS:
		out.TLS = r.serverTLS(p.dot("tls"), in.GetTls())
		if out.TLS != nil && out.TLS.Mode.Terminates() {
			out.Protocol = insideTLS(word)
		}
		out.PortName = in.GetPort().GetName()
		if strings.EqualFold(word, "HTTPS") && out.PortName == "" {
			r.fail(
				p.dot("port.name"), "", "is empty; the server stays closed",
				"a name that no other server of the Gateway has",
			)
		}
	case hasTLS(in.GetTls()), in.GetTls().GetHttpsRedirect() && !protocol.IsHTTP():
		r.fail(p.dot("tls"), in.GetTls().GetMode(),
			"has settings for TLS on a server of plaintext; the server stays closed",
			"httpsRedirect on a server of HTTP, or protocol HTTPS or TLS")
	}
}

// hasTLS reports whether settings ask for more than a redirect to https.
func hasTLS(in *networking.ServerTLSSettings) bool {
	return in.GetMode() != networking.ServerTLSSettings_PASSTHROUGH || in.GetCredentialName() != "" ||
		len(in.GetCredentialNames()) > 0 || in.GetServerCertificate() != "" || in.GetPrivateKey() != "" ||
		len(in.GetTlsCertificates()) > 0 || in.GetCaCertificates() != "" || in.GetCaCertCredentialName() != ""
}

// scopedHost reads "namespace/host", or "host" for byDefault + "/host".
func (r *reader) scopedHost(p path, text, byDefault string) (model.ScopedHost, bool) {
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		namespace, name = byDefault, text
	}
	switch {
	case namespace == "." && r.meshWide:
	case namespace == ".":
		namespace = r.meta.Namespace
	case namespace == "*" || namespace == "~" || isName(namespace):
	default:
		r.fail(
			p, text, "has a part before the slash that is no namespace",
			`"namespace/host", with "." for the own and "*" for any namespace`,
		)
		return model.ScopedHost{}, false
	}
	host, ok := r.literal(p, name, true)
	if ok && host != "*" && !strings.Contains(string(host), ".") {
		r.warn(p, text, "is a short name, which is not completed here", wantHost)
	}
	return model.ScopedHost{Namespace: namespace, Host: host}, ok
}
