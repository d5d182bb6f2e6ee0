package convert

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// backendReader reads what the rules of a route lead to, and collects what needs a grant.
type backendReader struct {
	*reader
	route  *model.AttachedRoute
	broken int // rules
	// mirrors is set while references of mirrors are read: without them requests go on.
	mirrors bool
}

func (b *backendReader) partiallyInvalid(p path, why string) {
	b.route.PartiallyInvalid = model.Condition{
		Status: true, Reason: string(gatewayv1.RouteReasonUnsupportedValue), Message: string(p) + ": " + why,
	}
}

// backend reads a reference to a Service. One that cannot be followed has no host, and its requests
// are answered with 500.
func (b *backendReader) backend(p path, ref gatewayv1.BackendObjectReference) model.Destination {
	group, kind := "", "Service"
	if ref.Group != nil {
		group = string(*ref.Group)
	}
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if group == kinds.NetworkingGroup && kind == "Hostname" {
		return b.hostname(p, ref)
	}
	if group != "" || kind != "Service" {
		b.unresolved(p.dot("kind"), kind, gatewayv1.RouteReasonInvalidKind, "is no kind of backend that is supported")
		return model.Destination{}
	}
	name := model.ObjectName{Namespace: b.meta.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil {
		name.Namespace = string(*ref.Namespace)
	}
	if !isName(name.Name) || !isName(name.Namespace) {
		b.unresolved(p.dot("name"), name.Name, gatewayv1.RouteReasonBackendNotFound, "is no name of a Service")
		return model.Destination{}
	}
	d := model.Destination{Host: model.Resolve(name.Name, name.Namespace, b.mesh.Domain)}
	if ref.Port == nil {
		b.unresolved(p.dot("port"), nil, gatewayv1.RouteReasonUnsupportedProtocol, "is missing")
		return model.Destination{}
	}
	if !b.backendPort(p.dot("port"), *ref.Port) {
		return model.Destination{}
	}
	d.Port = uint16(*ref.Port)
	if name.Namespace != b.meta.Namespace {
		b.route.Foreign = append(b.route.Foreign, model.ForeignHost{Service: name, Host: d.Host})
	}
	return d
}

// hostname reads Istio's reference to a host of a ServiceEntry or a Service of the route's
// namespace.
func (b *backendReader) hostname(p path, ref gatewayv1.BackendObjectReference) model.Destination {
	start := b.mark()
	host, ok := b.literal(p.dot("name"), string(ref.Name), false)
	if !ok {
		b.route.ResolvedRefs = model.Condition{
			Reason: string(gatewayv1.RouteReasonBackendNotFound), Message: b.failure(start, p),
		}
		return model.Destination{}
	}
	if ref.Namespace != nil {
		b.unresolved(p.dot("namespace"), *ref.Namespace, gatewayv1.RouteReasonBackendNotFound,
			"stands beside a Hostname, which is one of the route's namespace")
		return model.Destination{}
	}
	b.route.Foreign = append(b.route.Foreign, model.ForeignHost{Host: host})
	d := model.Destination{Host: host}
	if ref.Port != nil {
		if !b.backendPort(p.dot("port"), *ref.Port) {
			return model.Destination{}
		}
		d.Port = uint16(*ref.Port)
	}
	return d
}

func (b *backendReader) backendPort(p path, port gatewayv1.PortNumber) bool {
	if port < 1 || port > math.MaxUint16 {
		b.unresolved(p, port, gatewayv1.RouteReasonBackendNotFound, "is no port")
		return false
	}
	return true
}

// mirrorBackends reads where a rule's mirrors lead. One that leads nowhere is left out, and the
// rule goes on: its requests are answered as without it.
func (b *backendReader) mirrorBackends(p path, filters []gatewayv1.HTTPRouteFilter, out *model.HTTPRoute) {
	b.mirrors = true
	defer func() { b.mirrors = false }()
	next := 0
	for i := range filters {
		if mirror := filters[i].RequestMirror; filters[i].Type == gatewayv1.HTTPRouteFilterRequestMirror {
			out.Mirrors[next].Destination = b.backend(p.at(i).dot("requestMirror.backendRef"), mirror.BackendRef)
			next++
		}
	}
	out.Mirrors = slices.DeleteFunc(out.Mirrors, func(m model.Mirror) bool { return m.Destination.Host == "" })
}

func (b *backendReader) unresolved(p path, value any, reason gatewayv1.RouteConditionReason, message string) {
	effect := "; its requests are answered with 500"
	switch k := b.meta.Kind; {
	case b.mirrors:
		effect = "; no requests are mirrored there"
	case k == kinds.TLSRoute || k == kinds.TCPRoute:
		effect = "; its connections are closed"
	}
	b.fail(p, value, message+effect, "a Service and one of its ports")
	b.route.ResolvedRefs = model.Condition{Reason: string(reason), Message: fmt.Sprintf("%s: %s", p, message)}
}

// finish sorts what was collected. A route is not accepted if none of its rules is in force.
func (b *backendReader) finish(rules int) {
	if invalid := b.route.PartiallyInvalid; rules > 0 && b.broken == rules {
		b.route.Accepted = model.Condition{Reason: invalid.Reason, Message: invalid.Message}
		b.route.PartiallyInvalid = model.Condition{}
	}
	slices.SortFunc(b.route.Foreign, func(a, o model.ForeignHost) int {
		return cmp.Or(
			cmp.Compare(a.Service.Namespace, o.Service.Namespace), cmp.Compare(a.Service.Name, o.Service.Name),
			cmp.Compare(a.Host, o.Host),
		)
	})
	b.route.Foreign = slices.Compact(b.route.Foreign)
}

// forward reads the backends of a rule. Without any that gets requests, all are answered with 500.
func (b *backendReader) forward(p path, list []gatewayv1.HTTPBackendRef, out *model.HTTPRoute) {
	for i := range list {
		in, at := &list[i], p.at(i)
		weight := int32(1)
		if in.Weight != nil {
			weight = *in.Weight
		}
		if weight == 0 {
			continue
		}
		d := b.backend(at, in.BackendObjectReference)
		d.Weight = b.nonNegative(at.dot("weight"), weight)
		for j := range in.Filters {
			if !b.backendFilter(at.dot("filters").at(j), &in.Filters[j], &d) {
				d.Host = "" // its requests get 500
			}
		}
		out.Destinations = append(out.Destinations, d)
	}
	if len(out.Destinations) > 0 {
		return
	}
	out.Direct = &model.DirectResponse{
		Status: http.StatusInternalServerError, Body: []byte("This rule is not in force: no backend gets requests\n"),
	}
	out.Timeout, out.Retries, out.Mirrors, out.Rewrite = 0, nil, nil, nil
}

// backendFilter reads a filter of one backend.
func (b *backendReader) backendFilter(p path, in *gatewayv1.HTTPRouteFilter, d *model.Destination) bool {
	if d.Headers == nil {
		d.Headers = &model.HeaderOps{}
	}
	start := b.mark()
	switch {
	case in.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && in.RequestHeaderModifier != nil:
		d.Headers.Request = b.headerFilter(p.dot("requestHeaderModifier"), in.RequestHeaderModifier)
	case in.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && in.ResponseHeaderModifier != nil:
		d.Headers.Response = b.headerFilter(p.dot("responseHeaderModifier"), in.ResponseHeaderModifier)
	default:
		b.fail(p.dot("type"), in.Type, "is no filter of a backend that is supported; its requests get 500",
			"RequestHeaderModifier or ResponseHeaderModifier")
	}
	if broken := b.failure(start, p); broken != "" {
		b.partiallyInvalid(p, broken)
		return false
	}
	return true
}
