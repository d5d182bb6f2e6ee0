package convert

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// kubernetesGateway reads a Gateway of the Gateway API. Mistakes close the listener that they stand
// in, and its conditions say so.
func (r *reader) kubernetesGateway(in *gatewayv1.Gateway) []Object {
	p := path("spec")
	g := &model.KubernetesGateway{
		Meta:     r.meta,
		Class:    string(in.Spec.GatewayClassName),
		Accepted: accepted(string(gatewayv1.GatewayReasonAccepted)),
	}
	g.Listeners = r.listeners(p.dot("listeners"), in.Spec.Listeners)
	conflicts(g.Listeners)
	r.reportConflicts(p.dot("listeners"), g.Listeners)
	g.Clients = r.frontend(p.dot("tls.frontend"), in.Spec.TLS)
	r.clientCertificate(p.dot("tls.backend.clientCertificateRef"), in.Spec.TLS, g)
	g.Sets = r.allowedListeners(p.dot("allowedListeners.namespaces"), in.Spec.AllowedListeners)
	r.gatewayAddresses(p.dot("addresses"), in.Spec.Addresses, g)
	r.infrastructure(p.dot("infrastructure"), in, g)
	r.unusedOfGateway(p, &in.Spec)
	return []Object{g}
}

// unusedOfGateway reports what is set and has no effect.
func (r *reader) unusedOfGateway(p path, in *gatewayv1.GatewaySpec) {
	if in.DefaultScope != "" && in.DefaultScope != gatewayv1.GatewayDefaultScopeNone {
		r.warn(p.dot("defaultScope"), in.DefaultScope, notYet, "")
	}
}

func (r *reader) listener(p path, in *gatewayv1.Listener) model.Listener {
	l := model.Listener{
		Name: string(in.Name), Host: "*",
		Accepted:     accepted(string(gatewayv1.ListenerReasonAccepted)),
		ResolvedRefs: accepted(string(gatewayv1.ListenerReasonResolvedRefs)),
		Conflicted:   model.Condition{Reason: string(gatewayv1.ListenerReasonNoConflicts)},
	}
	start := r.mark()
	l.Port, _ = r.port(p.dot("port"), int64(in.Port))
	if in.Hostname != nil && *in.Hostname != "" {
		l.Host, _ = r.literal(p.dot("hostname"), string(*in.Hostname), true)
	}
	if broken := r.failure(start, p); broken != "" {
		l.Accepted = model.Condition{Reason: string(gatewayv1.ListenerReasonUnsupportedValue), Message: broken}
	}
	takes := r.gatewayListenerProtocol(p, in, &l)
	r.allowedRoutes(p.dot("allowedRoutes"), in.AllowedRoutes, takes, &l)
	return l
}

// gatewayListenerProtocol reads the protocol and TLS of a listener, and returns the kinds of routes
// that it may take.
func (r *reader) gatewayListenerProtocol(p path, in *gatewayv1.Listener, l *model.Listener) []kinds.Kind {
	switch in.Protocol {
	case gatewayv1.HTTPProtocolType:
		l.Protocol = model.HTTP
		if in.TLS != nil {
			r.unsupportedListener(p.dot("tls"), nil, "has no place on a listener of HTTP", l)
		}
		return []kinds.Kind{kinds.GRPCRoute, kinds.HTTPRoute}
	case gatewayv1.HTTPSProtocolType:
		l.Protocol = model.HTTP
		r.listenerTLS(p.dot("tls"), in.TLS, l)
		return []kinds.Kind{kinds.GRPCRoute, kinds.HTTPRoute}
	case gatewayv1.TLSProtocolType:
		if in.TLS != nil && in.TLS.Mode != nil && *in.TLS.Mode == gatewayv1.TLSModePassthrough {
			l.Protocol = model.TLS
			l.TLS = r.pools.serverTLS.Canonical(&model.ServerTLS{Mode: model.ServerPassthrough})
			for _, key := range sortedKeys(in.TLS.Options) {
				r.warn(p.dot("tls.options").key(string(key)), in.TLS.Options[key],
					"has no effect where TLS is passed on", "mode Terminate")
			}
			return []kinds.Kind{kinds.TLSRoute}
		}
		l.Protocol = model.TCP
		r.listenerTLS(p.dot("tls"), in.TLS, l)
		return []kinds.Kind{kinds.TLSRoute}
	case gatewayv1.TCPProtocolType:
		l.Protocol, l.Host = model.TCP, "*" // nothing tells connections apart
		if in.TLS != nil {
			r.unsupportedListener(p.dot("tls"), nil, "has no place on a listener of TCP", l)
		}
		return []kinds.Kind{kinds.TCPRoute}
	}
	r.fail(p.dot("protocol"), in.Protocol, "is not supported; the listener stays closed", "HTTP, HTTPS, TLS or TCP")
	l.Accepted = model.Condition{
		Reason:  string(gatewayv1.ListenerReasonUnsupportedProtocol),
		Message: fmt.Sprintf("protocol %q is not supported", in.Protocol),
	}
	return nil
}

func (r *reader) unsupportedListener(p path, value any, message string, l *model.Listener) {
	r.fail(p, value, message+"; the listener stays closed", "none")
	l.Accepted = model.Condition{
		Reason: string(gatewayv1.ListenerReasonUnsupportedValue), Message: string(p) + ": " + message,
	}
}

// listenerTLS reads the certificates that a listener terminates TLS with.
func (r *reader) listenerTLS(p path, in *gatewayv1.ListenerTLSConfig, l *model.Listener) {
	t := &model.ServerTLS{Mode: model.ServerSimple}
	var refs []gatewayv1.SecretObjectReference
	if in != nil {
		refs = in.CertificateRefs
		if in.Mode != nil && *in.Mode != gatewayv1.TLSModeTerminate {
			r.unsupportedListener(p.dot("mode"), *in.Mode, "is no mode of a listener that reads requests", l)
		}
		r.tlsOptions(p.dot("options"), in.Options, optionTargets{l, t})
	}
	at := p.dot("certificateRefs")
	if len(refs) == 0 {
		r.invalidCertificate(at, nil, "is empty; the listener stays closed", l)
	}
	for i, ref := range refs {
		if secret, ok := r.certificateRef(at.at(i), ref, l); ok {
			l.Secrets = append(l.Secrets, secret)
		}
	}
	l.TLS = r.pools.serverTLS.Canonical(t)
}

func (r *reader) certificateRef(
	p path, ref gatewayv1.SecretObjectReference, l *model.Listener,
) (model.ObjectName, bool) {
	group, kind := "", "Secret"
	if ref.Group != nil {
		group = string(*ref.Group)
	}
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	name := model.ObjectName{Namespace: r.meta.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil {
		name.Namespace = string(*ref.Namespace)
	}
	switch {
	case group != "" || kind != "Secret":
		r.invalidCertificate(p.dot("kind"), kind, "is no Secret; the listener stays closed", l)
		return name, false
	case !isObjectName(name.Name) || !isName(name.Namespace):
		r.invalidCertificate(p.dot("name"), name.Name, "is no name of a Secret; the listener stays closed", l)
		return name, false
	}
	return name, true
}

func (r *reader) invalidCertificate(p path, value any, message string, l *model.Listener) {
	r.fail(p, value, message, "the name of a Secret with a certificate and its key")
	l.ResolvedRefs = model.Condition{
		Reason: string(gatewayv1.ListenerReasonInvalidCertificateRef), Message: string(p) + ": " + message,
	}
}

// allowedRoutes reads which routes may attach: of which kinds, and of which namespaces.
func (r *reader) allowedRoutes(p path, in *gatewayv1.AllowedRoutes, takes []kinds.Kind, l *model.Listener) {
	l.From = model.NamespaceSelector{Same: true}
	l.Kinds = takes
	if in == nil {
		return
	}
	if in.Namespaces != nil {
		l.From = r.namespaceSelector(p.dot("namespaces"), in.Namespaces)
	}
	if len(in.Kinds) == 0 {
		return
	}
	l.Kinds = nil
	for i, k := range in.Kinds {
		kind := kinds.Kind(k.Kind)
		if k.Group != nil && *k.Group != kinds.GatewayAPIGroup || !slices.Contains(takes, kind) {
			at := p.dot("kinds").at(i)
			r.fail(at.dot("kind"), kind, "is no kind of route that this listener takes",
				"a kind that fits the protocol")
			l.ResolvedRefs = model.Condition{
				Reason:  string(gatewayv1.ListenerReasonInvalidRouteKinds),
				Message: fmt.Sprintf("%s: %s is no kind of route that this listener takes", at, kind),
			}
			continue
		}
		l.Kinds = append(l.Kinds, kind)
	}
	slices.Sort(l.Kinds)
	l.Kinds = slices.Compact(l.Kinds)
}

// namespaceSelector reads which namespaces are meant. One that cannot be read selects none.
func (r *reader) namespaceSelector(p path, in *gatewayv1.RouteNamespaces) model.NamespaceSelector {
	from := gatewayv1.NamespacesFromSame
	if in.From != nil {
		from = *in.From
	}
	switch from {
	case gatewayv1.NamespacesFromAll:
		return model.NamespaceSelector{All: true}
	case gatewayv1.NamespacesFromSame:
		return model.NamespaceSelector{Same: true}
	case gatewayv1.NamespacesFromNone:
		return model.NamespaceSelector{}
	case gatewayv1.NamespacesFromSelector:
		return r.labelSelector(p.dot("selector"), in.Selector)
	}
	r.fail(p.dot("from"), from, "is no choice of namespaces, so that none is chosen", "All, Same, Selector or None")
	return model.NamespaceSelector{}
}

// labelSelector reads a selector of Kubernetes. A missing one, or one with a mistake, selects none.
func (r *reader) labelSelector(p path, in *metav1.LabelSelector) model.NamespaceSelector {
	if in == nil {
		r.fail(p, nil, "is missing, so that no namespace is selected", "a selector of labels")
		return model.NamespaceSelector{}
	}
	start := r.mark()
	var out model.NamespaceSelector
	r.selector(p.dot("matchLabels"), in.MatchLabels)
	for _, key := range sortedKeys(in.MatchLabels) {
		out.Labels = append(out.Labels, model.LabelRequirement{Key: key, Values: []string{in.MatchLabels[key]}})
	}
	operators := map[metav1.LabelSelectorOperator]model.LabelOperator{
		metav1.LabelSelectorOpIn: model.LabelIn, metav1.LabelSelectorOpNotIn: model.LabelNotIn,
		metav1.LabelSelectorOpExists: model.LabelExists, metav1.LabelSelectorOpDoesNotExist: model.LabelDoesNotExist,
	}
	for i, e := range in.MatchExpressions {
		operator, known := operators[e.Operator]
		if !known {
			r.fail(p.dot("matchExpressions").at(i).dot("operator"), e.Operator, "is no operator",
				"In, NotIn, Exists or DoesNotExist")
		}
		out.Labels = append(out.Labels, model.LabelRequirement{
			Key: e.Key, Operator: operator, Values: sorted(slices.Clone(e.Values)),
		})
	}
	if r.failure(start, p) != "" {
		return model.NamespaceSelector{}
	}
	slices.SortFunc(out.Labels, func(a, b model.LabelRequirement) int {
		return cmp.Or(
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values),
		)
	})
	out.AnyLabels = len(out.Labels) == 0
	return out
}
