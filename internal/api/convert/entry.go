package convert

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// serviceEntry returns a Service for each host.
func (r *reader) serviceEntry(in *networkingv1.ServiceEntry) []Object {
	spec := &in.Spec
	p := path("spec")
	common := model.Service{
		Meta:     r.meta,
		External: spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
		Ports:    r.entryPorts(p.dot("ports"), spec),
		ExportTo: r.exports(p.dot("exportTo"), spec.GetExportTo(), r.mesh.ServiceExport),

		Distribution: r.distribution(nil),
	}
	common.Resolution = r.resolution(p.dot("resolution"), spec.GetResolution())
	common.Addresses = r.entryAddresses(p.dot("addresses"), spec)
	common.Endpoints = r.entryEndpoints(p.dot("endpoints"), spec, common.Ports)
	common.Selector = r.entrySelector(p.dot("workloadSelector"), spec)
	common.SubjectAltNames = slices.Clone(spec.GetSubjectAltNames())
	common.Session = r.serviceSession(in.Labels)
	var out []Object
	for i, host := range r.entryHosts(p.dot("hosts"), spec.GetHosts()) {
		s := common
		s.Host = host.name
		if s.Resolution == model.DynamicDNS {
			s.Resolution = r.dynamicResolution(p.dot("hosts").at(host.index), host.name)
		}
		s.AutoAddress = mayHaveAutoAddress(in, host.name)
		s.Endpoints = r.hostEndpoints(p.dot("hosts").at(host.index), spec, s)
		s.OwnMachine = r.converter.cluster && slices.ContainsFunc(s.Endpoints, func(e model.Endpoint) bool {
			return isOwnMachine(e.Address)
		})
		if i > 0 { // each Service owns its lists
			s.Ports = slices.Clone(s.Ports)
			s.Addresses = slices.Clone(s.Addresses)
			s.SubjectAltNames = slices.Clone(s.SubjectAltNames)
		}
		out = append(out, &s)
	}
	r.reportUnused(p, spec.ProtoReflect())
	return out
}

// autoAddressLabel keeps a ServiceEntry from having addresses of the mesh's own range, with the
// value "false".
const autoAddressLabel = "networking.istio.io/enable-autoallocate-ip"

// mayHaveAutoAddress reports whether a host may have an address of the mesh's own range. Without
// resolution connections go on to the address that was called, which nobody has.
func mayHaveAutoAddress(in *networkingv1.ServiceEntry, host model.Host) bool {
	return len(in.Spec.GetAddresses()) == 0 && in.Spec.GetResolution() != networking.ServiceEntry_NONE &&
		!host.IsWildcard() && !strings.EqualFold(in.Labels[autoAddressLabel], "false")
}

type entryHost struct {
	name  model.Host
	index int
}

func (r *reader) entryHosts(p path, list []string) []entryHost {
	var out []entryHost
	if len(list) == 0 {
		r.fail(p, nil, "is empty", wantWildcard)
	}
	for i, text := range list {
		host, ok := r.literal(p.at(i), text, true)
		switch {
		case !ok:
		case host == "*":
			r.fail(p.at(i), text, "would stand for every host there is", wantWildcard)
		case slices.ContainsFunc(out, func(o entryHost) bool { return o.name == host }):
			r.warn(p.at(i), text, "is there twice", "")
		default:
			out = append(out, entryHost{host, i})
		}
	}
	return out
}

func (r *reader) entryPorts(p path, spec *networking.ServiceEntry) []model.ServicePort {
	var out []model.ServicePort
	for i, in := range spec.GetPorts() {
		at := p.at(i)
		number, ok := r.port(at.dot("number"), int64(in.GetNumber()))
		protocol, known := parseProtocol(in.GetProtocol())
		if !known && in.GetProtocol() != "" {
			r.fail(at.dot("protocol"), in.GetProtocol(), "is no protocol", wantProtocol)
			ok = false
		}
		target := number
		if in.GetTargetPort() != 0 {
			var good bool
			target, good = r.port(at.dot("targetPort"), int64(in.GetTargetPort()))
			ok = ok && good
		}
		ok = ok && r.portName(at.dot("name"), in.GetName())
		if spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS && ok {
			ok = r.dynamicPort(at, in, protocol)
		}
		if slices.ContainsFunc(out, func(o model.ServicePort) bool { return o.Port == number }) && ok {
			r.fail(at.dot("number"), number, "is the number of another port", "a number of its own")
			ok = false
		}
		if slices.ContainsFunc(out, func(o model.ServicePort) bool { return o.Name == in.GetName() }) && ok {
			r.fail(at.dot("name"), in.GetName(), "is the name of another port", "a name of its own")
			ok = false
		}
		if ok {
			out = append(out, model.ServicePort{Name: in.GetName(), Port: number, Protocol: protocol, Target: target})
		}
	}
	return out
}

// resolution reads how endpoints become known. With a value that Lateen cannot follow, the hosts
// are known and have no endpoints. As unknown hosts they might be called in a way that nobody
// meant.
func (r *reader) resolution(p path, in networking.ServiceEntry_Resolution) model.Resolution {
	switch in {
	case networking.ServiceEntry_NONE:
		return model.Passthrough
	case networking.ServiceEntry_STATIC:
		return model.EDS
	case networking.ServiceEntry_DNS:
		return model.StrictDNS
	case networking.ServiceEntry_DNS_ROUND_ROBIN:
		return model.LogicalDNS
	case networking.ServiceEntry_DYNAMIC_DNS:
		return model.DynamicDNS
	}
	r.fail(
		p, in, "is no resolution; the hosts have no endpoints", "NONE, STATIC, DNS, DNS_ROUND_ROBIN or DYNAMIC_DNS",
	)
	return model.EDS
}

func isDNS(in networking.ServiceEntry_Resolution) bool {
	return in == networking.ServiceEntry_DNS || in == networking.ServiceEntry_DNS_ROUND_ROBIN
}

func (r *reader) entryAddresses(p path, spec *networking.ServiceEntry) []string {
	if spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS {
		r.noneForNames(p, len(spec.GetAddresses()))
		return nil
	}
	var out []string
	for i, text := range spec.GetAddresses() {
		known, ok := addressOrPrefix(text)
		switch {
		case !ok:
			r.fail(p.at(i), text, "is no IP address or prefix", `an address as "240.0.0.1" or a prefix as "10.0.0.0/8"`)
		case strings.Contains(known, "/") && isDNS(spec.GetResolution()):
			r.fail(
				p.at(i), text, "is a prefix, which resolution DNS does not take",
				"an address, or resolution NONE or STATIC",
			)
		default:
			out = append(out, known)
		}
	}
	return sorted(out)
}

func (r *reader) entryEndpoints(p path, spec *networking.ServiceEntry, ports []model.ServicePort) []model.Endpoint {
	list := spec.GetEndpoints()
	switch spec.GetResolution() {
	case networking.ServiceEntry_NONE:
		if len(list) > 0 {
			r.fail(p, nil, "is set, but resolution NONE has no endpoints", "resolution STATIC or DNS")
		}
		return nil
	case networking.ServiceEntry_STATIC, networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
	case networking.ServiceEntry_DYNAMIC_DNS:
		r.noneForNames(p, len(list))
		return nil
	default:
		return nil
	}
	if len(list) == 0 && spec.GetResolution() == networking.ServiceEntry_STATIC && spec.GetWorkloadSelector() == nil {
		r.warn(p, nil, "is empty, so the hosts have no endpoints", "endpoints or workloadSelector")
	}
	var out []model.Endpoint
	for i, in := range list {
		if i > 0 && spec.GetResolution() == networking.ServiceEntry_DNS_ROUND_ROBIN {
			r.fail(
				p.at(i), in.GetAddress(), "is one too many: resolution DNS_ROUND_ROBIN takes one endpoint",
				"resolution DNS, or one endpoint",
			)
			continue
		}
		sockets := 0
		for _, e := range out {
			if strings.HasPrefix(e.Address, unixPrefix) {
				sockets++
			}
		}
		if strings.HasPrefix(in.GetAddress(), unixPrefix) && sockets == maxSockets {
			r.fail(p.at(i).dot("address"), in.GetAddress(), "is one Unix socket too many", "at most 8")
			continue
		}
		out = append(out, r.entryEndpoint(p.at(i), in, ports, isDNS(spec.GetResolution()))...)
	}
	for i, in := range list {
		if r.converter.cluster && isOwnMachine(in.GetAddress()) {
			r.warn(p.at(i).dot("address"), in.GetAddress(),
				"leads to the machine of whoever calls it: sidecars do, gateways call none of the entry's endpoints",
				"an address that is the same for all callers")
		}
	}
	return out
}

// maxWeight keeps the sum of the weights of an entry's endpoints below Envoy's bound, 2^32.
const maxWeight = 1_000_000

// entryEndpoint gives one endpoint for each port of the service.
func (r *reader) entryEndpoint(
	p path, in *networking.WorkloadEntry, ports []model.ServicePort, names bool,
) []model.Endpoint {
	if strings.HasPrefix(in.GetAddress(), unixPrefix) && !names {
		return r.entrySocket(p, in, ports)
	}
	start := r.mark()
	e := r.workloadAddress(p, in, names)
	e.Labels = r.labels(p.dot("labels"), withTLSMode(in.GetLabels(), e.Account))
	numbers := r.workloadPorts(p.dot("ports"), in)
	for _, name := range sortedKeys(in.GetPorts()) {
		if !slices.ContainsFunc(ports, func(s model.ServicePort) bool { return s.Name == name }) {
			r.warn(
				p.dot("ports").key(name), in.GetPorts()[name], "is a port that the entry does not have",
				"the name of one of its ports",
			)
		}
	}
	if r.failure(start, p) != "" {
		return nil
	}
	var out []model.Endpoint
	for _, s := range ports {
		e.Port, e.PortName = s.Target, s.Name
		if number, set := numbers[s.Name]; set {
			e.Port = number
		}
		if isOwnMachine(e.Address) && model.IsProxyPort(e.Port) {
			r.fail(p.dot("ports").key(s.Name), e.Port, "is a port of the caller's own proxy", wantAppPort)
			continue
		}
		out = append(out, e)
	}
	return out
}

// unixPrefix begins the addresses of Unix sockets.
const unixPrefix = model.UnixPrefix

// maxSockets is how many Unix sockets an entry may list. Their assignment then goes whole, as those
// of clusters with few endpoints do: as resources of their own their names would be paths.
const maxSockets = 8

// entrySocket reads an endpoint that is a Unix socket on the machine of whoever calls it.
func (r *reader) entrySocket(p path, in *networking.WorkloadEntry, ports []model.ServicePort) []model.Endpoint {
	start, text := r.mark(), in.GetAddress()
	r.unixSocket(p.dot("address"), text, strings.TrimPrefix(text, unixPrefix))
	if len(in.GetPorts()) > 0 {
		r.fail(p.dot("ports"), nil, "are set beside a Unix socket, which has none", "no ports")
	}
	if len(ports) != 1 {
		r.fail(p.dot("address"), text, "is a Unix socket, which serves one port; the entry has others", "one port")
	}
	e := model.Endpoint{
		Address: text, Weight: in.GetWeight(), Locality: model.ParseLocality(in.GetLocality()),
		Labels: r.labels(p.dot("labels"), in.GetLabels()),
	}
	if in.GetServiceAccount() != "" {
		r.warn(p.dot("serviceAccount"), in.GetServiceAccount(), "has no effect for a Unix socket", "no serviceAccount")
	}
	if e.Weight > maxWeight {
		r.fail(p.dot("weight"), e.Weight, "is too large", "a number from 0 to 1000000")
	}
	if r.failure(start, p) != "" {
		return nil
	}
	e.PortName = ports[0].Name
	return []model.Endpoint{e}
}

// workloadAddress reads the address, locality, weight and service account of a workload.
func (r *reader) workloadAddress(p path, in *networking.WorkloadEntry, names bool) model.Endpoint {
	e := model.Endpoint{Weight: in.GetWeight(), Locality: model.ParseLocality(in.GetLocality())}
	e.Address = r.endpointAddress(p.dot("address"), in.GetAddress(), names)
	if e.Account = in.GetServiceAccount(); e.Account != "" && !isObjectName(e.Account) {
		r.fail(p.dot("serviceAccount"), e.Account, "is no name of a ServiceAccount", wantLabel)
	}
	if e.Weight > maxWeight {
		r.fail(p.dot("weight"), e.Weight, "is too large", "a number from 0 to 1000000")
	}
	return e
}

func (r *reader) workloadPorts(p path, in *networking.WorkloadEntry) map[string]uint16 {
	numbers := map[string]uint16{}
	for _, name := range sortedKeys(in.GetPorts()) {
		if number, ok := r.port(p.key(name), int64(in.GetPorts()[name])); ok {
			numbers[name] = number
		}
	}
	return numbers
}

func (r *reader) endpointAddress(p path, text string, names bool) string {
	switch _, err := netip.ParseAddr(text); {
	case text == "":
		r.fail(p, text, "is empty", "an IP address")
	case strings.HasPrefix(text, "unix:"):
		r.fail(p, text, "is a Unix socket, which only endpoints that a ServiceEntry of resolution STATIC lists may be",
			"an IP address")
	case err == nil || !names:
		a, _ := r.unicastAddress(p, text)
		return a
	default:
		host, _ := r.literal(p, text, false)
		return string(host)
	}
	return ""
}

func (r *reader) entrySelector(p path, spec *networking.ServiceEntry) model.Labels {
	if spec.GetWorkloadSelector() == nil {
		return model.Labels{}
	}
	switch {
	case len(spec.GetEndpoints()) > 0:
		r.fail(p, nil, "is set beside endpoints; the endpoints count", "workloadSelector or endpoints")
		return model.Labels{}
	case spec.GetResolution() != networking.ServiceEntry_STATIC && !isDNS(spec.GetResolution()):
		r.fail(
			p, nil, "selects addresses, which resolution "+spec.GetResolution().String()+" does not take",
			"resolution STATIC, DNS or DNS_ROUND_ROBIN",
		)
		return model.Labels{}
	}
	labels := spec.GetWorkloadSelector().GetLabels()
	if len(labels) == 0 {
		r.fail(p.dot("labels"), nil, "is empty, so it selects nothing", "at least one label")
	}
	selector, _ := r.selector(p.dot("labels"), labels)
	return selector
}

// hostEndpoints returns the endpoints of one host. A DNS entry without endpoints has the host
// itself, unless it selects workloads.
func (r *reader) hostEndpoints(p path, spec *networking.ServiceEntry, s model.Service) []model.Endpoint {
	if !isDNS(spec.GetResolution()) || len(spec.GetEndpoints()) > 0 || spec.GetWorkloadSelector() != nil {
		return slices.Clone(s.Endpoints)
	}
	if s.Host.IsWildcard() {
		r.fail(p, s.Host, "is a wildcard, which cannot be resolved; it has no endpoints", "a plain name, or endpoints")
		return nil
	}
	var out []model.Endpoint
	for _, port := range s.Ports {
		if isOwnMachine(string(s.Host)) && model.IsProxyPort(port.Target) {
			r.fail(p, s.Host, "is the caller's own machine, and the port one of its proxy", wantAppPort)
			continue
		}
		out = append(out, model.Endpoint{Address: string(s.Host), Port: port.Target, PortName: port.Name})
	}
	return out
}
