package convert

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// egresses reads what proxies see. If none of the listeners can be taken, they see nothing.
func (r *reader) egresses(
	p path, list []*networking.IstioEgressListener, ingress []model.IngressListener,
) []model.EgressListener {
	var found []model.EgressListener
	for i, in := range list {
		l, ok := r.egress(p.at(i), in)
		if slices.ContainsFunc(ingress, func(in model.IngressListener) bool {
			return l.Bind != "" && in.Bind == l.Bind && in.Port == l.Port
		}) {
			r.fail(
				p.at(i).dot("bind"), l.Bind, "is where an ingress listener has the port, which counts",
				"another address",
			)
			l = model.EgressListener{Port: l.Port, Hosts: noHosts()}
		}
		isSame := func(o model.EgressListener) bool { return l.IsWhere(&o) }
		switch {
		case !ok:
		case slices.ContainsFunc(found, isSame):
			r.fail(
				p.at(i).dot("port.number"), l.Port, "has a listener already, which counts", "each port or socket once",
			)
		default:
			found = append(found, l)
		}
	}
	if len(list) > 0 && len(found) == 0 {
		return []model.EgressListener{{Hosts: noHosts()}}
	}
	return found
}

// noHosts returns the list of hosts that selects none. An empty list would select all.
func noHosts() []model.ScopedHost { return []model.ScopedHost{{Namespace: "~", Host: "*"}} }

// egress reads a listener. One with a mistake is left out; if it has a port it shows nothing, so
// that no other listener opens what it limits there.
func (r *reader) egress(p path, in *networking.IstioEgressListener) (model.EgressListener, bool) {
	start := r.mark()
	l := r.egressAddress(p, in)
	r.captureMode(p.dot("captureMode"), in.GetCaptureMode())
	if in.GetPort() == nil && in.GetCaptureMode() == networking.CaptureMode_NONE {
		r.warn(
			p.dot("captureMode"), in.GetCaptureMode(),
			"has no effect without a port: where connections are redirected, they stay so", "a port beside it",
		)
	}
	if r.failure(start, p) != "" {
		return model.EgressListener{Port: l.Port, Hosts: noHosts()}, l.Port != 0
	}
	l.OwnPort = l.IsOwn() && in.GetCaptureMode() == networking.CaptureMode_NONE
	l.Hosts, l.Hidden = r.egressHosts(p.dot("hosts"), in.GetHosts())
	return l, true
}

// egressAddress reads where a listener takes calls, and which: at a port, or by a Unix socket.
func (r *reader) egressAddress(p path, in *networking.IstioEgressListener) (l model.EgressListener) {
	text, number := in.GetBind(), int64(in.GetPort().GetNumber())
	if in.GetPort() == nil {
		if text != "" {
			r.fail(p.dot("bind"), text, "is set without a port", "a port beside it")
		}
		return l
	}
	l.Requests, l.AllPorts = r.egressProtocol(p.dot("port.protocol"), in.GetPort().GetProtocol())
	if socket, unix := strings.CutPrefix(text, model.UnixPrefix); unix {
		if number != 0 {
			r.fail(p.dot("port.number"), number, "is set beside a Unix socket", "0")
		}
		if !l.Requests {
			r.fail(
				p.dot("port.protocol"), in.GetPort().GetProtocol(), "is not supported yet for Unix sockets",
				"HTTP, HTTP2, GRPC or HTTP_PROXY",
			)
		}
		r.unixSocket(p.dot("bind"), text, socket)
		l.Bind = text
		return l
	}
	l.Port, _ = r.port(p.dot("port.number"), number)
	if model.IsProxyPort(l.Port) {
		r.fail(p.dot("port.number"), number, "is a port of the proxy itself", wantAppPort)
	}
	if text != "" {
		l.Bind, _ = r.address(p.dot("bind"), text)
	}
	return l
}

// egressProtocol reads what a listener takes: requests or bytes, and whether requests are those of
// clients of an HTTP proxy.
func (r *reader) egressProtocol(p path, word string) (requests, proxy bool) {
	const want = "one of HTTP, HTTP_PROXY, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, MONGO, REDIS, MYSQL"
	protocol, known := parseProtocol(word)
	switch {
	case word == "":
		r.fail(p, nil, "is missing", want)
	case !known || protocol == model.UDP:
		r.fail(p, word, "is no protocol of a listener", want)
	}
	return protocol.IsHTTP(), strings.EqualFold(word, "HTTP_PROXY")
}

// egressHosts reads the hosts of a listener. A wrong one is left out; if none is left the listener
// shows nothing. Nor does it if something that it is to hide ("~namespace/host") cannot be read.
func (r *reader) egressHosts(p path, list []string) (hosts, hidden []model.ScopedHost) {
	closed := false
	for i, text := range list {
		exclude, excluded := strings.CutPrefix(text, "~")
		if excluded && strings.HasPrefix(exclude, "/") {
			exclude = "*" + exclude
		}
		if !strings.Contains(text, "/") {
			r.fail(
				p.at(i), text, "names no namespace", `"namespace/host", with "." for the own and "*" for any namespace`,
			)
			closed = closed || excluded
			continue
		}
		h, ok := r.scopedHost(p.at(i), exclude, "")
		switch {
		case !ok:
			closed = closed || excluded
		case excluded:
			hidden = append(hidden, h)
		default:
			hosts = append(hosts, h)
		}
	}
	if closed {
		r.fail(p, "~", "has an exclusion that cannot be read, so the listener shows nothing", `"~namespace/host"`)
	}
	if closed || len(hosts) == 0 {
		return noHosts(), nil
	}
	slices.SortFunc(hidden, func(a, b model.ScopedHost) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(string(a.Host), string(b.Host)))
	})
	return hosts, slices.Compact(hidden)
}
