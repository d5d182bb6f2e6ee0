package convert

import (
	"slices"

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
	s.Egress = r.egresses(p.dot("egress"), spec.GetEgress(), s.Ingress)
	s.Pool = r.serverPool(p.dot("inboundConnectionPool"), spec.GetInboundConnectionPool())
	s.Outbound = r.outboundPolicy(p.dot("outboundTrafficPolicy"), spec.GetOutboundTrafficPolicy())
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{s}
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
