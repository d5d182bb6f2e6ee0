package convert

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// infrastructure reads how the workloads of a Gateway are deployed.
func (r *reader) infrastructure(p path, in *gatewayv1.Gateway, g *model.KubernetesGateway) {
	infrastructure := in.Spec.Infrastructure
	if infrastructure == nil {
		infrastructure = &gatewayv1.GatewayInfrastructure{}
	}
	labels, annotations := map[string]string{}, map[string]string{}
	for k, v := range infrastructure.Labels {
		labels[string(k)] = string(v)
	}
	for _, k := range sortedKeys(infrastructure.Annotations) {
		key, value := string(k), string(infrastructure.Annotations[k])
		if v, ok := r.gatewayAnnotation(p.dot("annotations").key(key), key, value); ok {
			annotations[string(k)] = v
		}
	}
	if infrastructure.Labels == nil { // Istio's rule
		maps.Copy(labels, in.Labels)
		delete(labels, kinds.RevisionLabel)
	}
	to := &g.Infrastructure
	to.Labels, _ = r.selector(p.dot("labels"), labels)
	to.Annotations = model.LabelsOf(annotations)
	to.Revision = in.Labels[kinds.RevisionLabel]
	to.ServiceType = r.serviceType(p, annotations)
	to.Parameters = r.gatewayParameters(p.dot("parametersRef"), infrastructure.ParametersRef, g)
}

// serviceType returns the type of the Service. The annotation may also stand at the Gateway.
func (r *reader) serviceType(p path, annotations map[string]string) string {
	p = p.dot("annotations")
	kind, has := annotations[kinds.ServiceTypeAnnotation]
	if !has {
		p = "metadata.annotations"
		kind, has = r.annotations[kinds.ServiceTypeAnnotation]
	}
	const usual = "LoadBalancer"
	if has && !slices.Contains([]string{usual, "ClusterIP", "NodePort"}, kind) {
		r.fail(p.key(kinds.ServiceTypeAnnotation), kind, "is no type of a Service that can be made",
			"LoadBalancer, ClusterIP or NodePort")
		kind = ""
	}
	return cmp.Or(kind, usual)
}

// gatewayParameters returns the name of the ConfigMap with the parameters.
func (r *reader) gatewayParameters(
	p path, in *gatewayv1.LocalParametersReference, g *model.KubernetesGateway,
) string {
	if in == nil {
		return ""
	}
	if in.Group != "" || kinds.Kind(in.Kind) != kinds.ConfigMap || !isObjectName(in.Name) {
		const want = "a ConfigMap of the Gateway's namespace"
		r.fail(p, in.Name, "names no parameters", want)
		g.Accepted = model.Condition{
			Reason:  string(gatewayv1.GatewayReasonInvalidParameters),
			Message: string(p) + " names no parameters; want " + want,
		}
		return ""
	}
	return in.Name
}

// gatewayAddresses reads where a Gateway is to be: the host of a Service whose workloads serve it,
// which is deployment by hand, or the IP address of the Service that is deployed. The status
// reports a second address.
func (r *reader) gatewayAddresses(p path, list []gatewayv1.GatewaySpecAddress, g *model.KubernetesGateway) {
	for i, a := range list {
		at := p.at(i)
		start := r.mark()
		kind := gatewayv1.IPAddressType
		if a.Type != nil {
			kind = *a.Type
		}
		switch {
		case kind != gatewayv1.HostnameAddressType && kind != gatewayv1.IPAddressType:
			r.fail(at.dot("type"), kind, "is no type of address that is supported",
				"Hostname, of a Service, or IPAddress")
		case g.Service != "" || g.Infrastructure.Address != "":
			g.Unusable = cmp.Or(g.Unusable, fmt.Sprintf(
				"%s = %q is a second address; the first one counts", at.dot("value"), a.Value,
			))
		case kind == gatewayv1.HostnameAddressType:
			g.Service, _ = r.resolve(at.dot("value"), a.Value, false)
		default:
			ip, err := netip.ParseAddr(a.Value)
			if err != nil || ip.Zone() != "" {
				r.fail(at.dot("value"), a.Value, "is no IP address", "an IP address, or none for any")
				break
			}
			g.Infrastructure.Address = ip.String()
		}
		if broken := r.failure(start, at); broken != "" {
			g.Accepted = model.Condition{
				Reason: string(gatewayv1.GatewayReasonUnsupportedAddress), Message: string(at) + ": " + broken,
			}
		}
	}
}
