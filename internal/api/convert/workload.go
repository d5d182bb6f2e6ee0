package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func (r *reader) namespace(in *corev1.Namespace) []Object {
	return []Object{&model.Namespace{
		Meta: r.meta, Labels: r.labels("metadata.labels", in.Labels),
		Budget: model.ChangeBudget{
			Warns:   r.budget(kinds.WarnsAtAnnotation, in.Annotations),
			Refuses: r.budget(kinds.RefusedAtAnnotation, in.Annotations),
		},
	}}
}

// budget is a number of proxies; that of the mesh, 0, if it is none.
func (r *reader) budget(name string, annotations map[string]string) int {
	text, set := annotations[name]
	if !set {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		r.fail(
			path("metadata.annotations").key(name), text, "is no number of proxies; that of the mesh holds",
			"a number from 1 on",
		)
		return 0
	}
	return n
}

// node reads the locality of a node and nothing else, so that heartbeats change nothing.
func (r *reader) node(in *corev1.Node) []Object {
	return []Object{&model.Node{Meta: r.meta, Locality: topology(in.Labels)}}
}

// pod gives a Workload until the pod has ended.
func (r *reader) pod(in *corev1.Pod) []Object {
	r.terminating = in.DeletionTimestamp != nil
	if in.Status.Phase == corev1.PodSucceeded || in.Status.Phase == corev1.PodFailed {
		return nil
	}
	w := &model.Workload{
		Meta:           r.meta,
		Labels:         r.labels("metadata.labels", in.Labels),
		ServiceAccount: in.Spec.ServiceAccountName,
		Node:           in.Spec.NodeName,
		Locality:       podLocality(in.Labels),
		Addresses:      r.podIPs(&in.Status),
		Ports:          r.containerPorts(&in.Spec),
		Own:            r.ownAddresses(in.Annotations),
		Gateway:        isGateway(in),
	}
	if w.ServiceAccount == "" {
		w.ServiceAccount = "default"
	}
	return []Object{w}
}

// isGateway reports whether the proxy of a pod is a gateway: the injection template says so, or the
// arguments of its container do, as those of Istio's own gateways ("proxy router").
func isGateway(pod *corev1.Pod) bool {
	for template := range strings.SplitSeq(pod.Annotations[kinds.TemplatesAnnotation], ",") {
		if strings.TrimSpace(template) == "gateway" {
			return true
		}
	}
	runsRouter := func(c corev1.Container) bool {
		return c.Name == kinds.ProxyContainer && len(c.Args) > 1 && c.Args[0] == "proxy" && c.Args[1] == "router"
	}
	return slices.ContainsFunc(pod.Spec.Containers, runsRouter) ||
		slices.ContainsFunc(pod.Spec.InitContainers, runsRouter)
}

func (r *reader) ownAddresses(annotations map[string]string) *model.OwnAddresses {
	own := model.OwnAddresses{
		App:      r.ownAddress(annotations, kinds.AppAddressAnnotation),
		Outbound: r.ownAddress(annotations, kinds.OutboundAddressAnnotation),
	}
	if own == (model.OwnAddresses{}) {
		return nil
	}
	return &own
}

func (r *reader) ownAddress(annotations map[string]string, name string) string {
	text, set := annotations[name]
	if !set {
		return ""
	}
	a, _ := r.unicastAddress(path("metadata.annotations").key(name), text)
	return a
}

func (r *reader) podIPs(status *corev1.PodStatus) []string {
	var out []string
	add := func(p path, text string) {
		if text == "" {
			return
		}
		if a, ok := r.unicastAddress(p, text); ok && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	add("status.podIP", status.PodIP)
	for i, ip := range status.PodIPs {
		add(path("status.podIPs").at(i).dot("ip"), ip.IP)
	}
	return out
}

// containerPorts returns the ports to which named target ports can refer: those of containers, and
// of init containers that keep running. The first of a name wins, as in Kubernetes.
func (r *reader) containerPorts(spec *corev1.PodSpec) model.PortNames {
	out := map[string]uint16{}
	add := func(p path, ports []corev1.ContainerPort) {
		for i, in := range ports {
			if in.Name == "" || in.Protocol == corev1.ProtocolUDP || out[in.Name] != 0 {
				continue
			}
			if number, ok := r.port(p.dot("ports").at(i).dot("containerPort"), int64(in.ContainerPort)); ok {
				out[in.Name] = number
			}
		}
	}
	for i, c := range spec.Containers {
		add(path("spec.containers").at(i), c.Ports)
	}
	for i, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(path("spec.initContainers").at(i), c.Ports)
		}
	}
	return model.PortNamesOf(out)
}

// podLocality reads a pod's own labels. Those of its node are read with the node. A label cannot
// hold a slash, so istio-locality may have dots instead.
func podLocality(labels map[string]string) model.Locality {
	if text := labels["istio-locality"]; text != "" {
		if !strings.Contains(text, "/") {
			text = strings.ReplaceAll(text, ".", "/")
		}
		return model.ParseLocality(text)
	}
	return topology(labels)
}

func topology(labels map[string]string) model.Locality {
	return model.Locality{
		Region:  labels[model.RegionLabel],
		Zone:    labels[model.ZoneLabel],
		Subzone: labels[model.SubzoneLabel],
	}
}

// ServiceOf returns the Service of a changed EndpointSlice. For other changes it returns the zero
// key.
func ServiceOf(c source.Change) source.Key {
	slice, ok := c.Object.(*discoveryv1.EndpointSlice)
	if !ok {
		return source.Key{}
	}
	return source.Key{Kind: kinds.Service, Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// endpointSlice gives nothing for a slice without a service.
func (r *reader) endpointSlice(in *discoveryv1.EndpointSlice) []Object {
	service := in.Labels[discoveryv1.LabelServiceName]
	if service == "" {
		return r.ignore()
	}
	if in.AddressType == discoveryv1.AddressTypeFQDN {
		r.fail(
			"addressType", in.AddressType, "slices of names are not used",
			"IPv4 or IPv6; for names, a ServiceEntry with resolution DNS",
		)
		return nil
	}
	if !isName(service) {
		r.fail(path("metadata.labels").key(discoveryv1.LabelServiceName), service, "is no name of a Service", wantLabel)
		return nil
	}
	return []Object{&model.EndpointSlice{
		Meta:    r.meta,
		Service: service,
		Ports:   r.slicePorts(in.Ports),
		Hosts:   r.sliceHosts(in.Endpoints),
		Unready: r.unreadyPods(in.Endpoints),
	}}
}

// slicePorts reads the TCP ports. Proxies handle no others.
func (r *reader) slicePorts(list []discoveryv1.EndpointPort) []model.SlicePort {
	var out []model.SlicePort
	for i, in := range list {
		p := path("ports").at(i)
		if in.Protocol != nil && *in.Protocol != corev1.ProtocolTCP {
			continue
		}
		if in.Port == nil {
			r.fail(p.dot("port"), nil, "is missing, which would mean every port", wantPort)
			continue
		}
		number, ok := r.port(p.dot("port"), int64(*in.Port))
		if !ok {
			continue
		}
		port := model.SlicePort{Port: number}
		if in.Name != nil {
			port.Name = *in.Name
		}
		if !r.portName(p.dot("name"), port.Name) {
			continue
		}
		out = append(out, port)
	}
	return out
}

func (r *reader) sliceHosts(list []discoveryv1.Endpoint) []model.SliceHost {
	var out []model.SliceHost
	for i, in := range list {
		health, known := r.health(in.Conditions)
		host := model.SliceHost{Health: health}
		if ref := in.TargetRef; ref != nil && ref.Kind == string(kinds.Pod) {
			host.Pod = ref.Name
		}
		if in.NodeName != nil {
			host.Node = *in.NodeName
		}
		if in.Zone != nil {
			host.Zone = *in.Zone
		}
		host.Hints = hints(in.Hints)
		if in.Hostname != nil && isName(*in.Hostname) {
			host.Hostname = *in.Hostname
		}
		if len(in.Addresses) == 0 {
			r.fail(path("endpoints").at(i).dot("addresses"), nil, "is empty", "an IP address")
		}
		for j, text := range in.Addresses {
			a, ok := r.unicastAddress(path(fmt.Sprintf("endpoints[%d].addresses[%d]", i, j)), text)
			if ok && known {
				host.Address = a
				out = append(out, host)
			}
		}
	}
	return out
}

// hints returns the zones that an endpoint is meant for.
func hints(in *discoveryv1.EndpointHints) model.Zones {
	if in == nil || len(in.ForZones) == 0 {
		return ""
	}
	var zones []string
	for _, z := range in.ForZones {
		zones = append(zones, z.Name)
	}
	return model.ZonesOf(zones)
}

// unreadyPods returns pods that will soon be endpoints, or were. Callers expect their identities
// before the first call, and while connections to them last.
func (r *reader) unreadyPods(list []discoveryv1.Endpoint) []string {
	var out []string
	for _, in := range list {
		if ref := in.TargetRef; ref != nil && ref.Kind == string(kinds.Pod) {
			if _, known := r.health(in.Conditions); !known {
				out = append(out, ref.Name)
			}
		}
	}
	return sorted(out)
}

// health follows the API: an unknown ready counts as ready, an unknown serving as ready. What is
// not ready is no endpoint unless Options.Unready is set. A proxy could only leave it out, at the
// price of one more push when a pod starts and when it ends. Envoy finishes requests to an endpoint
// that goes.
func (r *reader) health(c discoveryv1.EndpointConditions) (h model.Health, known bool) {
	ready := c.Ready == nil || *c.Ready
	serving := ready
	if c.Serving != nil {
		serving = *c.Serving
	}
	terminating := c.Terminating != nil && *c.Terminating
	switch {
	case c.Ready != nil && *c.Ready: // published on purpose, even while it ends
		return model.Healthy, true
	case serving && terminating && !r.unready:
		return model.Ending, r.mesh.Sessions
	case serving && terminating:
		return model.Draining, true
	case ready && !terminating:
		return model.Healthy, true
	}
	return model.Unhealthy, r.unready
}
