package convert

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

func (r *reader) service(in *corev1.Service) []Object {
	host, ok := r.literal("metadata.name", r.meta.Name+"."+r.meta.Namespace+".svc."+r.mesh.Domain, false)
	if !ok {
		return nil
	}
	p := path("spec")
	s := &model.Service{
		Meta:     r.meta,
		Host:     host,
		Headless: in.Spec.ClusterIP == corev1.ClusterIPNone,
		Ports:    r.servicePorts(p.dot("ports"), in.Spec.Ports),
		ExportTo: r.exportsOf(in.Annotations),

		NodeLocal:    nodeLocal(in.Spec.InternalTrafficPolicy),
		Distribution: r.distribution(in.Spec.TrafficDistribution),
		Family:       family(in.Spec.IPFamilies),
		TwoFamilies:  len(in.Spec.IPFamilies) > 1,
	}
	s.Session = r.serviceSession(in.Labels)
	s.SubjectAltNames = r.serviceIdentities(in.Annotations)
	_, s.NoPortTranslation = in.Labels[kinds.PortTranslationLabel]
	s.Selector, _ = r.selector(p.dot("selector"), in.Spec.Selector)
	if in.Spec.Type == corev1.ServiceTypeExternalName {
		r.externalName(p.dot("externalName"), in.Spec.ExternalName, s)
	} else {
		s.Addresses, s.ExternalIPs = r.serviceAddresses(p, &in.Spec)
		// A manifest that no API server has seen has no cluster IP, and nobody assigns an address.
		if s.Balanced = in.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Addresses) > 0; s.Balanced {
			s.Balancers = r.balancers(in.Status.LoadBalancer.Ingress)
		}
	}
	return []Object{s}
}

// serviceIdentities reads the identities that annotations of a Service name.
func (r *reader) serviceIdentities(annotations map[string]string) []string {
	var names []string
	for _, name := range listed(annotations[kinds.IdentitiesAnnotation]) {
		if hasControl(name) {
			r.fail(
				path("metadata.annotations").key(kinds.IdentitiesAnnotation), name, "is no identity",
				`one as "spiffe://cluster.local/ns/default/sa/reviews"`,
			)
			continue
		}
		names = append(names, name)
	}
	for _, name := range listed(annotations[kinds.AccountsAnnotation]) {
		if !isObjectName(name) {
			r.fail(
				path("metadata.annotations").key(kinds.AccountsAnnotation), name, "is no name of a ServiceAccount",
				wantLabel,
			)
			continue
		}
		names = append(names, model.IdentityOf(r.mesh.TrustDomain, r.meta.Namespace, name))
	}
	return model.SortedDistinct(names)
}

// listed splits a list with commas.
func listed(text string) []string {
	var list []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	return list
}

func (r *reader) exportsOf(annotations map[string]string) model.Exports {
	list := listed(annotations[kinds.ExportAnnotation])
	return r.exports(path("metadata.annotations").key(kinds.ExportAnnotation), list, r.mesh.ServiceExport)
}

// externalName makes the service an alias. Its ports lead to those of the name. If the name is the
// host of a service, callers use that service's ports. A wrong name leaves the alias without
// endpoints, so that calls fail and are not treated as calls to an unknown host.
func (r *reader) externalName(p path, name string, s *model.Service) {
	s.Resolution, s.External, s.Headless = model.StrictDNS, true, false
	s.Selector = model.Labels{}
	host, ok := r.literal(p, name, false)
	if !ok {
		return
	}
	s.AliasOf = host
	for i := range s.Ports {
		port := &s.Ports[i]
		if port.TargetName != "" { // nobody can say what it would be
			port.TargetName, port.Target = "", port.Port
		}
		if port.Protocol == model.UDP {
			continue
		}
		s.Endpoints = append(s.Endpoints, model.Endpoint{Address: string(host), Port: port.Target, PortName: port.Name})
	}
}

// serviceAddresses returns the cluster IPs together with the external IPs, and the latter alone;
// callers in the cluster use both. As for kube-proxy, a headless service has neither.
func (r *reader) serviceAddresses(p path, spec *corev1.ServiceSpec) (all, external []string) {
	list, where := spec.ClusterIPs, func(i int) path { return p.dot("clusterIPs").at(i) }
	if len(list) == 0 && spec.ClusterIP != "" {
		list, where = []string{spec.ClusterIP}, func(int) path { return p.dot("clusterIP") }
	}
	for i, text := range list {
		if text == corev1.ClusterIPNone || text == "" {
			continue
		}
		if a, ok := r.unicastAddress(where(i), text); ok {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	for i, text := range spec.ExternalIPs {
		if a, ok := r.unicastAddress(p.dot("externalIPs").at(i), text); ok && !slices.Contains(all, a) {
			external = append(external, a)
		}
	}
	return sorted(append(all, external...)), sorted(external)
}

// balancers returns the addresses of a load balancer, and its names where it has no address.
func (r *reader) balancers(list []corev1.LoadBalancerIngress) (all []string) {
	for i, in := range list {
		p := path("status.loadBalancer.ingress").at(i)
		if in.IP != "" {
			if a, ok := r.unicastAddress(p.dot("ip"), in.IP); ok {
				all = append(all, a)
			}
		} else if host, ok := r.literal(p.dot("hostname"), in.Hostname, false); ok {
			all = append(all, string(host))
		}
	}
	return model.SortedDistinct(all)
}

// servicePorts reads ports in their order, UDP last: if TCP and UDP share a number, lookups find
// TCP.
func (r *reader) servicePorts(p path, list []corev1.ServicePort) []model.ServicePort {
	var out []model.ServicePort
	for i, in := range list {
		port, ok := r.servicePort(p.at(i), in)
		if !ok {
			continue
		}
		same := func(o model.ServicePort) bool {
			return o.Port == port.Port && (o.Protocol == model.UDP) == (port.Protocol == model.UDP)
		}
		if slices.ContainsFunc(out, same) {
			r.fail(p.at(i).dot("port"), in.Port, "is the port of another entry", "a number of its own")
			continue
		}
		if slices.ContainsFunc(out, func(o model.ServicePort) bool { return o.Name == port.Name }) {
			r.fail(p.at(i).dot("name"), in.Name, "is the name of another port", "a name of its own")
			continue
		}
		out = append(out, port)
	}
	slices.SortStableFunc(out, func(a, b model.ServicePort) int {
		return cmp.Compare(isUDP(a), isUDP(b))
	})
	return out
}

func isUDP(p model.ServicePort) int {
	if p.Protocol == model.UDP {
		return 1
	}
	return 0
}

func (r *reader) servicePort(p path, in corev1.ServicePort) (model.ServicePort, bool) {
	switch in.Protocol {
	case "", corev1.ProtocolTCP, corev1.ProtocolUDP:
	default:
		r.fail(p.dot("protocol"), in.Protocol, "is a protocol that proxies do not handle", "TCP or UDP")
		return model.ServicePort{}, false
	}
	number, ok := r.port(p.dot("port"), int64(in.Port))
	if !ok || !r.portName(p.dot("name"), in.Name) {
		return model.ServicePort{}, false
	}
	out := model.ServicePort{Name: in.Name, Port: number, Protocol: ServicePortProtocol(in), Target: number}
	switch {
	case in.TargetPort.Type == intstr.String && in.TargetPort.StrVal != "":
		if !isName(in.TargetPort.StrVal) {
			r.fail(
				p.dot("targetPort"), in.TargetPort.StrVal, "is no name of a container's port",
				"a name as \"http\", or a number",
			)
			return model.ServicePort{}, false
		}
		out.Target, out.TargetName = 0, in.TargetPort.StrVal
	case in.TargetPort.Type == intstr.Int && in.TargetPort.IntVal != 0:
		out.Target, ok = r.port(p.dot("targetPort"), int64(in.TargetPort.IntVal))
	}
	return out, ok
}

// distribution reads which endpoints are preferred. Istio's annotation comes before the field,
// which is newer. Without either, a Service that asks for hints prefers the hinted endpoints.
func (r *reader) distribution(field *string) model.TrafficDistribution {
	p, text := path("spec.trafficDistribution"), ""
	if field != nil {
		text = *field
	}
	if value, set := r.annotations[kinds.DistributionAnnotation]; set {
		p, text = path("metadata.annotations").key(kinds.DistributionAnnotation), value
	}
	switch strings.ToLower(text) {
	case "":
		if r.wantsHints() {
			return model.PreferHinted
		}
	case "any":
	case "preferclose", "prefersamezone":
		return model.PreferZone
	case "prefersamenode":
		return model.PreferNode
	default:
		r.fail(
			p, text, "is no preference that is known; there is none", "PreferClose, PreferSameZone or PreferSameNode",
		)
	}
	return model.DistributeAny
}

// wantsHints reports whether a Service has topology aware routing. Any value but Disabled counts:
// whoever makes the hints interprets it.
func (r *reader) wantsHints() bool {
	mode, set := r.annotations[kinds.HintsAnnotation]
	if !set {
		mode = r.annotations[kinds.TopologyAnnotation]
	}
	return mode != "" && !strings.EqualFold(mode, "disabled")
}

// family returns the first family of the service. Callers use it unless they have no address of it.
func family(list []corev1.IPFamily) model.Family {
	if len(list) == 0 {
		return model.AnyFamily
	}
	if list[0] == corev1.IPv6Protocol {
		return model.IPv6
	}
	return model.IPv4
}

// nodeLocal reports whether calls stay on the caller's node.
func nodeLocal(policy *corev1.ServiceInternalTrafficPolicy) bool {
	return policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal
}
