package convert

import (
	"net/netip"
	pathpkg "path"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func (r *reader) ingress(p path, in *networking.IstioIngressListener) (model.IngressListener, bool) {
	start := r.mark()
	out := model.IngressListener{
		Name:     in.GetPort().GetName(),
		Protocol: r.listenerProtocol(p.dot("port.protocol"), in.GetPort().GetProtocol()),
	}
	out.Port, _ = r.port(p.dot("port.number"), int64(in.GetPort().GetNumber()))
	out.Bind = r.ingressBind(p.dot("bind"), in.GetBind())
	out.OwnPort = in.GetCaptureMode() == networking.CaptureMode_NONE
	out.TLS = r.endedTLS(p, in)
	if out.TLS != nil {
		out.Protocol = insideTLS(in.GetPort().GetProtocol())
	}
	r.captureMode(p.dot("captureMode"), in.GetCaptureMode())
	out.EndpointAddress, out.EndpointPort = r.defaultEndpoint(
		p.dot("defaultEndpoint"), in.GetDefaultEndpoint(), out.Port,
	)
	usable := r.failure(start, p) == ""
	out.Pool = r.serverPool(p.dot("connectionPool"), in.GetConnectionPool())
	return out, usable
}

// serverPool reads what is said of connections to the workload's process.
func (r *reader) serverPool(p path, in *networking.ConnectionPoolSettings) *model.ConnectionPool {
	return r.pools.connections.Canonical(r.connectionPool(p, in).AtServer())
}

// defaultEndpoint reads where the workload's process listens: on loopback ("127.0.0.1:8080"), on
// the pod's address ("0.0.0.0:8080"), or on a Unix socket. The default is the listener's port,
// without an address.
func (r *reader) defaultEndpoint(p path, text string, port uint16) (string, uint16) {
	if text == "" {
		return "", port
	}
	if socket, unix := strings.CutPrefix(text, "unix://"); unix {
		r.unixSocket(p, text, socket)
		return text, 0
	}
	endpoint, err := netip.ParseAddrPort(text)
	switch {
	case err != nil || endpoint.Port() == 0:
	case model.IsProxyPort(endpoint.Port()):
		r.fail(p, text, "is a port of the proxy itself", wantAppPort)
		return "", 0
	case endpoint.Addr() == netip.MustParseAddr("127.0.0.1") || endpoint.Addr() == netip.IPv6Loopback():
		return model.OwnApp, endpoint.Port()
	case endpoint.Addr().IsUnspecified():
		return model.OwnPod, endpoint.Port()
	}
	r.fail(
		p, text, "is no place that traffic can be handed to",
		`"127.0.0.1:PORT", "[::1]:PORT", "0.0.0.0:PORT", "[::]:PORT" or "unix:///path/to/socket"`,
	)
	return "", 0
}

// maxSocketPath is how many bytes the path of a Unix socket has at most (sockaddr_un, without its
// last 0).
const maxSocketPath = 107

// unixSocket checks the path of a Unix socket, or its name in the abstract namespace.
func (r *reader) unixSocket(p path, text, socket string) {
	if len(socket) < 2 || len(socket) > maxSocketPath || (socket[0] != '/' && socket[0] != '@') || hasControl(socket) {
		r.fail(p, text, "is no Unix socket", `"unix:///path/to/socket" or "unix://@name"`)
	}
	if isProxySocket(socket) {
		r.fail(p, text, "is where the proxy has its own sockets", "a socket of the application")
	}
}

// isProxySocket reports whether a Unix socket may be one of the proxy: of certificates, of the
// control plane or of its admin interface. Below /proc each of them has further names.
func isProxySocket(socket string) bool {
	if !strings.HasPrefix(socket, "/") {
		return false
	}
	socket = pathpkg.Clean(socket)
	return slices.ContainsFunc([]string{
		"/etc/istio/", "/var/run/secrets/", "/run/secrets/", "/var/lib/istio/", "/proc/",
	}, func(dir string) bool { return strings.HasPrefix(socket, dir) })
}

// ingressBind reads the address of a listener. An unspecified one is that of the workload: at all
// addresses the proxy would take the place of the process.
func (r *reader) ingressBind(p path, text string) string {
	if text == "" {
		return ""
	}
	bind, ok := r.address(p, text)
	if !ok || netip.MustParseAddr(bind).IsUnspecified() {
		return ""
	}
	return bind
}

// endedTLS reads how a listener ends TLS of clients outside of the mesh. A mistake closes the
// listener: it would be open in plaintext else.
func (r *reader) endedTLS(p path, in *networking.IstioIngressListener) *model.ServerTLS {
	tls := in.GetTls()
	if tls == nil {
		return nil
	}
	start, at := r.mark(), p.dot("tls")
	out := r.serverTLS(at, tls)
	const want = "serverCertificate, privateKey and caCertificates: paths of files"
	switch {
	case r.failure(start, at) != "":
	case !out.Mode.Terminates() || out.Mode.OwnCertificate():
		r.fail(
			at.dot("mode"), tls.GetMode(), "is no mode of a sidecar's listener, which stays closed",
			"SIMPLE, MUTUAL or OPTIONAL_MUTUAL",
		)
	case len(out.Credentials) > 0 || len(tls.GetTlsCertificates()) > 0:
		r.fail(at, nil, "has a certificate that is no pair of files; the listener stays closed", want)
	case out.CACredential != "":
		r.fail(at.dot("caCertCredentialName"), out.CACredential, "is not for sidecars; the listener stays closed", want)
	case len(out.SubjectAltNames) > 0:
		r.fail(
			at.dot("subjectAltNames"), out.SubjectAltNames[0], "are not for sidecars; the listener stays closed",
			"no subjectAltNames",
		)
	}
	if protocol, _ := parseProtocol(in.GetPort().GetProtocol()); protocol != model.TLS {
		r.fail(
			p.dot("port.protocol"), in.GetPort().GetProtocol(),
			"is none with TLS, which tls is for; the listener stays closed", "HTTPS or TLS",
		)
	}
	return out
}

// insideTLS returns the protocol of what is inside TLS, by the protocol of the port.
func insideTLS(word string) model.Protocol {
	if strings.EqualFold(word, "HTTPS") {
		return model.HTTP
	}
	return model.TCP
}
