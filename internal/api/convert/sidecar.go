package convert

import (
	"cmp"
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
	return r.egressHosts(p.dot("hosts"), in.GetHosts()), true
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
// shows nothing. Nor does it if something that it is to hide ("~namespace/host") cannot be read.
func (r *reader) egressHosts(p path, list []string) model.EgressListener {
	var l model.EgressListener
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
			l.Hidden = append(l.Hidden, h)
		default:
			l.Hosts = append(l.Hosts, h)
		}
	}
	if closed {
		r.fail(p, "~", "has an exclusion that cannot be read, so the listener shows nothing", `"~namespace/host"`)
	}
	if closed || len(l.Hosts) == 0 {
		return model.EgressListener{Hosts: noHosts()}
	}
	slices.SortFunc(l.Hidden, func(a, b model.ScopedHost) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(string(a.Host), string(b.Host)))
	})
	l.Hidden = slices.Compact(l.Hidden)
	return l
}

// outboundPolicy reads what happens to unknown destinations. A setting that is wrong or not
// supported closes them.
func (r *reader) outboundPolicy(p path, in *networking.OutboundTrafficPolicy) *model.OutboundPolicy {
	if in == nil {
		return nil
	}
	proxy, usable := r.egressProxy(p.dot("egressProxy"), in)
	switch in.GetMode() {
	case networking.OutboundTrafficPolicy_ALLOW_ANY:
		return &model.OutboundPolicy{RegistryOnly: !usable, Proxy: proxy}
	case networking.OutboundTrafficPolicy_REGISTRY_ONLY:
	default:
		r.fail(
			p.dot("mode"), in.GetMode(), "is no mode; unknown destinations are refused", "REGISTRY_ONLY or ALLOW_ANY",
		)
	}
	return &model.OutboundPolicy{RegistryOnly: true}
}

// egressProxy reads where traffic to unknown destinations goes instead. A wrong one is not usable.
func (r *reader) egressProxy(p path, policy *networking.OutboundTrafficPolicy) (_ model.EgressProxy, usable bool) {
	in := policy.GetEgressProxy()
	if in == nil {
		return model.EgressProxy{}, true
	}
	start := r.mark()
	if policy.GetMode() != networking.OutboundTrafficPolicy_ALLOW_ANY {
		r.warn(p, in.GetHost(), "has no effect: unknown destinations are refused", "mode: ALLOW_ANY beside it")
	}
	if in.GetPort() == nil {
		r.fail(p.dot("port"), nil, "is missing; unknown destinations are refused", "the number of a port of the host")
	}
	to := r.destination(p, in)
	if to.Host.IsWildcard() {
		r.fail(p.dot("host"), to.Host, "is a wildcard; unknown destinations are refused", wantHost)
	}
	if r.failure(start, p) != "" {
		return model.EgressProxy{}, false
	}
	return model.EgressProxy{Host: to.Host, Port: to.Port, Subset: to.Subset}, true
}
