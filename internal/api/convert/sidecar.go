package convert

import (
	"net/netip"
	pathpkg "path"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// sidecar gives nothing if the selector is unusable.
func (r *reader) sidecar(in *networkingv1.Sidecar) []Object {
	spec := &in.Spec
	p := path("spec")
	s := &model.Sidecar{Meta: r.meta}
	selector, usable := r.selector(p.dot("workloadSelector.labels"), spec.GetWorkloadSelector().GetLabels())
	s.Selector = selector
	r.meshWide = selector.IsEmpty() && r.meta.Namespace == r.mesh.RootNamespace
	for i, in := range spec.GetIngress() {
		at := p.dot("ingress").at(i)
		l, ok := r.ingress(at, in)
		switch {
		case !ok:
		case slices.ContainsFunc(s.Ingress, func(o model.IngressListener) bool { return o.Port == l.Port }):
			r.fail(at.dot("port.number"), l.Port, "has a listener already, which counts", "each port once")
		default:
			s.Ingress = append(s.Ingress, l)
		}
	}
	s.IngressClosed = len(spec.GetIngress()) > 0 && len(s.Ingress) == 0
	for i, in := range spec.GetEgress() {
		if l, ok := r.egress(p.dot("egress").at(i), in); ok {
			s.Egress = append(s.Egress, l)
		}
	}
	if len(spec.GetEgress()) > 0 && len(s.Egress) == 0 {
		s.Egress = []model.EgressListener{{Hosts: noHosts()}}
	}
	s.Pool = r.serverPool(p.dot("inboundConnectionPool"), spec.GetInboundConnectionPool())
	s.Outbound = r.outboundPolicy(p.dot("outboundTrafficPolicy"), spec.GetOutboundTrafficPolicy())
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{s}
}

// noHosts returns the list of hosts that selects none. An empty list would select all.
func noHosts() []model.ScopedHost { return []model.ScopedHost{{Namespace: "~", Host: "*"}} }

func (r *reader) egress(p path, in *networking.IstioEgressListener) (model.EgressListener, bool) {
	start := r.mark()
	if port := in.GetPort(); port != nil {
		_, _ = r.port(p.dot("port.number"), int64(port.GetNumber()))
		r.listenerProtocol(p.dot("port.protocol"), port.GetProtocol())
		r.warn(
			p.dot("port"), port.GetNumber(),
			"does not make a listener of its own yet: the hosts are seen at all their ports", "no port",
		)
	}
	r.egressBind(p.dot("bind"), in)
	r.captureMode(p.dot("captureMode"), in.GetCaptureMode())
	if r.failure(start, p) != "" {
		return model.EgressListener{}, false
	}
	return model.EgressListener{Hosts: r.egressHosts(p.dot("hosts"), in.GetHosts())}, true
}

func (r *reader) egressBind(p path, in *networking.IstioEgressListener) {
	text := in.GetBind()
	switch {
	case text == "":
	case strings.HasPrefix(text, "unix:"):
		r.fail(p, text, "Unix sockets of listeners are not supported yet", "no bind")
	case in.GetPort() == nil:
		r.fail(p, text, "is set without a port", "a port beside it")
	default:
		if _, ok := r.address(p, text); ok {
			r.warn(p, text, notYet, "no bind")
		}
	}
}

func (r *reader) listenerProtocol(p path, word string) model.Protocol {
	protocol, known := parseProtocol(word)
	if !known && word != "" {
		r.fail(p, word, "is no protocol", wantProtocol)
	}
	return protocol
}

// captureMode reports a mode that Lateen does not provide.
func (r *reader) captureMode(p path, mode networking.CaptureMode) {
	if mode != networking.CaptureMode_DEFAULT && mode != networking.CaptureMode_NONE {
		r.warn(p, mode, "is left to what surrounds the proxy", "DEFAULT or NONE")
	}
}

// egressHosts reads the hosts of a listener. A wrong one is left out; if none is left the listener
// shows nothing. Exclusions ("~namespace/host") are not in the model yet: a host of which they
// exclude a part is left out as a whole.
func (r *reader) egressHosts(p path, list []string) []model.ScopedHost {
	var shown, hidden []model.ScopedHost
	for i, text := range list {
		exclude, excluded := strings.CutPrefix(text, "~")
		if excluded && strings.HasPrefix(exclude, "/") {
			exclude = "*" + exclude
		}
		if !strings.Contains(text, "/") {
			r.fail(
				p.at(i), text, "names no namespace", `"namespace/host", with "." for the own and "*" for any namespace`,
			)
			continue
		}
		h, ok := r.scopedHost(p.at(i), exclude, "")
		switch {
		case !ok:
		case excluded:
			hidden = append(hidden, h)
		default:
			shown = append(shown, h)
		}
	}
	shown = r.exclude(p, shown, hidden)
	if len(shown) == 0 {
		return noHosts()
	}
	return shown
}

func (r *reader) exclude(p path, shown, hidden []model.ScopedHost) []model.ScopedHost {
	kept := shown[:0]
	for _, h := range shown {
		overlaps := func(o model.ScopedHost) bool {
			return (h.Namespace == o.Namespace || isAnyNamespace(h.Namespace) || isAnyNamespace(o.Namespace)) &&
				h.Host.Overlaps(o.Host)
		}
		i := slices.IndexFunc(hidden, overlaps)
		if i < 0 {
			kept = append(kept, h)
			continue
		}
		if o := hidden[i]; !o.Host.Covers(h.Host) || (o.Namespace != "*" && h.Namespace == "*") {
			r.fail(p, h.Namespace+"/"+string(h.Host),
				"cannot be shown in part: exclusions are not supported yet; it is left out as a whole",
				"hosts that no exclusion overlaps")
		}
	}
	return kept
}

// isAnyNamespace reports whether a namespace of a ScopedHost may stand for any.
func isAnyNamespace(namespace string) bool { return namespace == "*" || namespace == "." }

func (r *reader) ingress(p path, in *networking.IstioIngressListener) (model.IngressListener, bool) {
	start := r.mark()
	out := model.IngressListener{
		Name:     in.GetPort().GetName(),
		Protocol: r.listenerProtocol(p.dot("port.protocol"), in.GetPort().GetProtocol()),
	}
	out.Port, _ = r.port(p.dot("port.number"), int64(in.GetPort().GetNumber()))
	r.bind(p.dot("bind"), in.GetBind())
	if in.GetTls() != nil {
		r.fail(
			p.dot("tls"), in.GetTls().GetMode(),
			"TLS on listeners of sidecars is not supported yet; the listener stays closed", "no tls",
		)
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
		if len(socket) < 2 || (socket[0] != '/' && socket[0] != '@') {
			r.fail(p, text, "is no Unix socket", `"unix:///path/to/socket" or "unix://@name"`)
		}
		if isProxySocket(socket) {
			r.fail(p, text, "is where the proxy has its own sockets", "a socket of the application")
		}
		return text, 0
	}
	endpoint, err := netip.ParseAddrPort(text)
	switch {
	case err != nil || endpoint.Port() == 0:
	case isProxyPort(endpoint.Port()):
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

// outboundPolicy reads what happens to unknown destinations. A setting that is wrong or not
// supported closes them.
func (r *reader) outboundPolicy(p path, in *networking.OutboundTrafficPolicy) *model.OutboundPolicy {
	if in == nil {
		return nil
	}
	if in.GetEgressProxy() != nil {
		r.fail(
			p.dot("egressProxy"), in.GetEgressProxy().GetHost(),
			"is not supported yet; unknown destinations are refused", "no egressProxy",
		)
		return &model.OutboundPolicy{RegistryOnly: true}
	}
	switch in.GetMode() {
	case networking.OutboundTrafficPolicy_ALLOW_ANY:
		return &model.OutboundPolicy{}
	case networking.OutboundTrafficPolicy_REGISTRY_ONLY:
	default:
		r.fail(
			p.dot("mode"), in.GetMode(), "is no mode; unknown destinations are refused", "REGISTRY_ONLY or ALLOW_ANY",
		)
	}
	return &model.OutboundPolicy{RegistryOnly: true}
}
