package meshlife

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Kinds are all kinds of objects that meshes are made of.
var Kinds = []kinds.Kind{
	kinds.Service, kinds.ServiceEntry, kinds.VirtualService, kinds.DestinationRule, kinds.Sidecar, kinds.Gateway,
	kinds.Pod,
	kinds.EndpointSlice, kinds.Namespace, kinds.Node, kinds.ConfigMap, kinds.AuthorizationPolicy,
	kinds.PeerAuthentication, kinds.RequestAuthentication, kinds.Telemetry, kinds.ProxyConfig, kinds.EnvoyFilter,
	KeySets,
	kinds.Secret, kinds.Ingress, kinds.WorkloadEntry,
}

// KeySets stands for the ConfigMap with fetched keys, which has nothing in common with the one that
// has the mesh configuration.
const KeySets kinds.Kind = "KeySets"

// meshKey is where the mesh configuration stands.
var meshKey = source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}

// keySetsKey is where fetched keys stand.
var keySetsKey = source.Key{Kind: KeySets, Namespace: "istio-system", Name: "lateen-jwks"}

func drawKey(t *rapid.T, k kinds.Kind) source.Key {
	switch k {
	case kinds.ConfigMap:
		return meshKey
	case KeySets:
		return keySetsKey
	case kinds.Namespace:
		return source.Key{Kind: k, Name: one(t, "name", namespaces...)}
	case kinds.Node:
		return source.Key{Kind: k, Name: one(t, "name", nodes...)}
	}
	namespace := one(t, "namespace", namespaces...)
	return source.Key{Kind: k, Namespace: namespace, Name: one(t, "name", namesOf(k, namespace)...)}
}

func namesOf(k kinds.Kind, namespace string) []string {
	switch k {
	case kinds.Secret:
		return secrets
	case kinds.Service:
		return services[namespace]
	case kinds.Gateway:
		return gatewayNames[namespace]
	}
	return names
}

// drawObjects is what a source object of this key may give: one model object, but of a ServiceEntry
// one for each host.
func drawObjects(t *rapid.T, k source.Key) []model.Object {
	m := model.Meta{
		Kind:      k.Kind,
		Namespace: k.Namespace,
		Name:      k.Name,
		Created:   one(t, "created", created...),
		UID:       one(t, "uid", "", "u1", "u2"),
	}
	switch k.Kind {
	case kinds.Service:
		return []model.Object{drawService(t, m)}
	case kinds.ServiceEntry:
		return drawEntry(t, m)
	case kinds.VirtualService:
		return []model.Object{drawRoutes(t, m)}
	case kinds.DestinationRule:
		return []model.Object{drawDestinationRule(t, m)}
	case kinds.Sidecar:
		return []model.Object{drawSidecar(t, m)}
	case kinds.Gateway:
		return []model.Object{drawGateway(t, m)}
	case kinds.AuthorizationPolicy:
		return []model.Object{drawAuthorizationPolicy(t, m)}
	case kinds.PeerAuthentication:
		return []model.Object{drawPeerAuthentication(t, m)}
	case kinds.RequestAuthentication:
		return []model.Object{drawRequestAuthentication(t, m)}
	case kinds.Telemetry:
		return []model.Object{drawTelemetry(t, m)}
	case kinds.ProxyConfig:
		return []model.Object{drawProxyConfig(t, m)}
	case kinds.EnvoyFilter:
		return []model.Object{drawEnvoyFilter(t, m)}
	case KeySets:
		return drawKeySets(t, m)
	case kinds.Secret:
		return []model.Object{drawCredential(t, m)}
	case kinds.Ingress:
		return drawIngress(t, m)
	case kinds.Pod:
		return []model.Object{drawWorkload(t, m)}
	case kinds.EndpointSlice:
		return []model.Object{drawSlice(t, m)}
	case kinds.WorkloadEntry:
		return []model.Object{drawWorkloadEntry(t, m)}
	case kinds.Namespace:
		return []model.Object{&model.Namespace{
			Meta: m, Labels: one(t, "labels", labelSets...),
			Budget: model.ChangeBudget{Warns: one(t, "budget", 0, 0, 7)},
		}}
	case kinds.Node:
		return []model.Object{&model.Node{Meta: m, Locality: one(t, "locality", localities...)}}
	default:
		return []model.Object{drawMesh(t)}
	}
}

func drawService(t *rapid.T, m model.Meta) *model.Service {
	s := &model.Service{
		Meta:     m,
		ExportTo: one(t, "export", exports...),
		Selector: one(t, "selector", labelSets...),
		Ports:    drawPorts(t),
	}
	s.Session = drawSession(t)
	s.NoPortTranslation = rarely(t, 5, "no port translation")
	s.NodeLocal, s.Distribution = rarely(t, 5, "node local"), drawDistribution(t)
	s.Family = one(t, "family", model.AnyFamily, model.IPv4, model.IPv4, model.IPv6)
	s.TwoFamilies = s.Family != model.AnyFamily && rapid.Bool().Draw(t, "two families")
	s.Host = model.Resolve(s.Name, s.Namespace, "cluster.local")
	switch {
	case rarely(t, 4, "headless"):
		s.Headless, s.Resolution = true, one(t, "resolution", model.Passthrough, model.EDS)
	case rarely(t, 6, "alias"):
		s.External, s.Resolution, s.Selector = true, model.StrictDNS, model.Labels{}
		s.AliasOf = one(t, "alias of", hosts...)
		for _, p := range s.Ports {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: "192.0.2.7", Port: p.Port, PortName: p.Name})
		}
	default:
		s.Addresses = []string{one(t, "virtual IP", "10.0.0.1", "10.0.0.2")}
		if rarely(t, 4, "external IP") {
			s.Addresses = append(s.Addresses, "192.0.2.1")
			s.ExternalIPs = []string{"192.0.2.1"}
		}
		if s.Balanced = rarely(t, 4, "balanced"); s.Balanced && rapid.Bool().Draw(t, "balancer") {
			s.Balancers = []string{"192.0.2.2"}
		}
	}
	return s
}

func drawEntry(t *rapid.T, m model.Meta) []model.Object {
	s := model.Service{
		Meta:     m,
		ExportTo: one(t, "export", exports...),
		External: rapid.Bool().Draw(t, "external"),
		Ports:    drawPorts(t),
		Resolution: one(t, "resolution", model.EDS, model.EDS, model.StrictDNS, model.StrictDNS, model.LogicalDNS,
			model.Passthrough),
	}
	s.Session = drawSession(t)
	s.Distribution, s.OwnMachine = drawDistribution(t), rarely(t, 5, "own machine")
	s.SubjectAltNames = one(t, "names in certificates", nil, nil, []string{"spiffe://cluster.local/ns/other/sa/x"},
		[]string{"a.test", "b.test"})
	if rapid.Bool().Draw(t, "selects") {
		s.Selector = one(t, "selector", labelSets[1:]...)
	} else if rapid.Bool().Draw(t, "listed") {
		for _, p := range s.Ports {
			s.Endpoints = append(s.Endpoints, drawListed(t, p))
		}
	}
	if rapid.Bool().Draw(t, "as others") { // so that several for one host are one service
		s.ExportTo, s.External, s.SubjectAltNames = model.Exports{All: true}, false, nil
		s.Distribution = model.DistributeAny
	}
	s.Addresses = one(t, "addresses", nil, nil, nil, nil, []string{"240.240.0.1"}, []string{"10.0.0.1"},
		addresses[:1], // that a pod may have
		[]string{"10.0.0.2", "10.1.0.0/16"},
		[]string{"10.1.0.0/16", "10.2.0.0/16"})
	among := hosts
	if rarely(t, 4, "dynamic DNS") {
		s.Resolution, s.Selector, s.Endpoints, s.Addresses = model.DynamicDNS, model.Labels{}, nil, nil
		among = wildcards
	}
	mayHaveAddress := len(s.Addresses) == 0 && s.Resolution != model.Passthrough && !rarely(t, 4, "opted out")
	var list []model.Object
	for _, h := range rapid.SliceOfNDistinct(rapid.SampledFrom(among), 1, 2, rapid.ID).Draw(t, "hosts") {
		each := s
		each.Host = h
		each.AutoAddress = mayHaveAddress && !h.IsWildcard()
		list = append(list, Clone(&each))
	}
	return list
}

func drawDistribution(t *rapid.T) model.TrafficDistribution {
	return one(t, "distribution", model.DistributeAny, model.DistributeAny, model.DistributeAny, model.PreferZone,
		model.PreferNode, model.PreferHinted)
}

func drawListed(t *rapid.T, p model.ServicePort) model.Endpoint {
	return model.Endpoint{
		Address:  one(t, "address", addresses...),
		Port:     one[uint16](t, "port", 80, 81),
		PortName: p.Name,
		Labels:   one(t, "labels", podLabels...),
		Weight:   one[uint32](t, "weight", 0, 2),
		Locality: drawLocality(t),
		Health:   one(t, "health", model.Healthy, model.Healthy, model.Unhealthy),
		Account:  one(t, "account", accounts...),
	}
}

func drawLocality(t *rapid.T) model.Locality {
	return one(t, "locality", slices.Concat(localities, make([]model.Locality, 2))...)
}

// drawOwnLocality is that of a pod, which mostly leaves it to the node.
func drawOwnLocality(t *rapid.T) model.Locality {
	if !rarely(t, 4, "a locality of its own") {
		return model.Locality{}
	}
	return drawLocality(t)
}

func drawVirtualService(t *rapid.T, m model.Meta) *model.VirtualService {
	v := &model.VirtualService{
		Meta:     m,
		ExportTo: one(t, "export", exports...),
		Gateways: one(t, "gateways", gateways...),
	}
	v.Hosts = rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 1, 2, rapid.ID).Draw(t, "hosts")
	for range rapid.IntRange(0, 2).Draw(t, "http") {
		v.HTTP = append(v.HTTP, drawHTTPRoute(t))
	}
	if rapid.Bool().Draw(t, "tcp") {
		v.TCP = []*model.TCPRoute{drawTCPRoute(t)}
	}
	if rapid.Bool().Draw(t, "tls") {
		v.TLS = []*model.TLSRoute{drawTLSRoute(t)}
	}
	return v
}

func drawDestinationRule(t *rapid.T, m model.Meta) *model.DestinationRule {
	r := &model.DestinationRule{
		Meta: m, Host: one(t, "host", hosts...), Policy: drawPolicy(t), ExportTo: one(t, "export", exports...),
		Selector: one(t, "selector", slices.Concat(labelSets, make([]model.Labels, 5))...),
	}
	for _, name := range one(t, "subsets", nil, []string{"v1"}, []string{"v1"}, []string{"v1", "v2"}) {
		r.Subsets = append(r.Subsets, model.Subset{
			Name:   name,
			Labels: one(t, "subset labels", labelSets...),
			Policy: drawPolicy(t),
		})
	}
	return r
}

func drawSidecar(t *rapid.T, m model.Meta) *model.Sidecar {
	s := &model.Sidecar{Meta: m, Selector: one(t, "selector", labelSets...)}
	if !rarely(t, 4, "sees all") {
		s.Egress = drawEgress(t)
	}
	if rapid.Bool().Draw(t, "policy") {
		s.Outbound = &model.OutboundPolicy{RegistryOnly: rapid.Bool().Draw(t, "registry only")}
		if !s.Outbound.RegistryOnly && rarely(t, 3, "egress proxy") {
			s.Outbound.Proxy = model.EgressProxy{
				Host:   one(t, "proxy", hosts...),
				Port:   one(t, "proxy port", ports...),
				Subset: one(t, "proxy subset", "", "v1"),
			}
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "ingress") {
	case 0:
		s.IngressClosed = true
	case 1, 2:
		s.Ingress = []model.IngressListener{{
			Name:            one(t, "stat", "in", "on"),
			Port:            one(t, "port", ports...),
			Protocol:        one(t, "protocol", model.HTTP, model.TCP, model.HTTP2),
			EndpointAddress: one(t, "to", model.OwnApp, model.OwnPod),
			EndpointPort:    one[uint16](t, "to port", 7000, 7001),
			Pool:            drawServerPool(t),
			Bind:            one(t, "bind", "", "", "127.0.0.9"),
			OwnPort:         rarely(t, 2, "own port"),
		}}
		if rarely(t, 2, "TLS") {
			s.Ingress[0].TLS = drawIngressTLS(t)
		}
	}
	s.Pool = drawServerPool(t)
	return s
}

// drawServerPool is mostly nothing.
func drawServerPool(t *rapid.T) *model.ConnectionPool {
	if !rarely(t, 4, "server's pool") {
		return nil
	}
	return &model.ConnectionPool{MaxConnections: one[uint32](t, "connections", 1, 2)}
}

func drawGateway(t *rapid.T, m model.Meta) *model.Gateway {
	g := &model.Gateway{
		Meta: m, Selector: one(t, "selector", labelSets...), Presents: one(t, "presents", "", "", "", "a", "b"),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "servers") {
		s := model.GatewayServer{
			Port:     one(t, "port", ports...),
			Bind:     one(t, "bind", "", "", "", "127.0.0.9"),
			Protocol: one(t, "protocol", model.HTTP, model.HTTP, model.HTTP2, model.TCP, model.GRPCWeb),
			Hosts:    drawScoped(t),
			Redirect: rarely(t, 4, "redirect"), Broken: one(t, "broken", "", "", "", "a mistake"),
		}
		if rapid.Bool().Draw(t, "with TLS") {
			s.PortName, s.TLS = fmt.Sprint("p", i), drawServerTLS(t)
			if !s.TLS.Mode.Terminates() {
				s.Protocol = model.TLS
			} else if rarely(t, 4, "misdirected") {
				s.Misdirected = []model.Host{one(t, "host of another server", append(hosts, "*")...)}
			}
		}
		g.Servers = append(g.Servers, s)
	}
	return g
}

// drawIngressTLS is that of a sidecar's listener, with files.
func drawIngressTLS(t *rapid.T) *model.ServerTLS {
	s := &model.ServerTLS{Mode: model.ServerSimple, Files: []model.CertificateFiles{{Chain: "/c", Key: "/k"}}}
	if rapid.Bool().Draw(t, "mutual") {
		s.Mode, s.CAFile = model.ServerMutual, "/a"
	}
	return s
}

func drawServerTLS(t *rapid.T) *model.ServerTLS {
	s := &model.ServerTLS{Mode: one(t, "mode", model.ServerPassthrough, model.ServerSimple, model.ServerSimple,
		model.ServerMutual, model.ServerIstioMutual, model.ServerAutoPassthrough)}
	if !s.Mode.Terminates() || s.Mode == model.ServerIstioMutual {
		return s
	}
	if rarely(t, 5, "files") {
		s.Mode = model.ServerSimple
		s.Files = []model.CertificateFiles{{Chain: "/chain", Key: one(t, "key", "/1", "/2")}}

		return s
	}
	s.Credentials = []string{one(t, "credential", "a", "a", "b")}
	s.MinVersion = one(t, "least version", model.TLSAuto, model.TLS12)
	if s.Mode == model.ServerMutual {
		s.CACredential = one(t, "authorities", "a", "b")
	}
	return s
}

// drawCredential draws what nobody looks into: only proxies read what is in it.
func drawCredential(t *rapid.T, m model.Meta) *model.Credential {
	c := &model.Credential{Meta: m}
	c.BadPair, c.BadAuthorities = rapid.Bool().Draw(t, "bad pair"), rapid.Bool().Draw(t, "bad authorities")
	if !rarely(t, 4, "no pair") {
		c.BadPair = false
		c.Pair = &model.KeyPair{
			Chain: model.NewSensitive(one(t, "chain", "chain 1", "chain 2")),
			Key:   model.NewSensitive(one(t, "key", "key 1", "key 2")),
		}
	}
	if rapid.Bool().Draw(t, "with authorities") {
		c.BadAuthorities = false
		c.Authorities = &model.Authorities{
			Certificates: model.NewSensitive(one(t, "authorities", "ca 1", "ca 2")),
			Revoked:      model.NewSensitive(one(t, "revoked", "", "crl")),
		}
	}
	return c
}

func drawWorkload(t *rapid.T, m model.Meta) *model.Workload {
	w := &model.Workload{
		Meta:      m,
		Labels:    one(t, "labels", podLabels...),
		Addresses: drawAddresses(t),
		Locality:  drawOwnLocality(t),
		Node:      one(t, "node", "", "n1", "n1", "n2"),
		Ports: model.PortNamesOf(one(t, "container ports", nil, map[string]uint16{"web": 8080},
			map[string]uint16{"web": 8081, "admin": 8080})),
		ServiceAccount: one(t, "account", deployedAccounts...), Gateway: one(t, "gateway", true, true, false),
	}
	own := model.OwnAddresses{
		App:      one(t, "own app", "", "127.2.0.1"),
		Outbound: one(t, "own outbound", "", "127.3.0.1"),
	}
	if own != (model.OwnAddresses{}) {
		w.Own = &own
	}
	return w
}

func drawWorkloadEntry(t *rapid.T, m model.Meta) *model.WorkloadEntry {
	return &model.WorkloadEntry{
		Meta: m, Labels: one(t, "labels", podLabels...),
		Address: one(t, "address", slices.Concat(addresses, []string{"vm.test", "vm.test"})...),
		Ports: model.PortNamesOf(one(t, "ports", nil, map[string]uint16{"p80": 8080},
			map[string]uint16{"web": 8081, "p9080": 8081})),
		Weight: one[uint32](t, "weight", 0, 2), Locality: drawLocality(t), Account: one(t, "account", accounts...),
		Health: one(t, "health", model.Healthy, model.Healthy, model.Unhealthy), Withheld: rarely(t, 4, "withheld"),
	}
}

// drawAddresses draws one of a family, or one of each.
func drawAddresses(t *rapid.T) []string {
	first := one(t, "address", addresses...)
	if rapid.Bool().Draw(t, "one family") {
		return []string{first}
	}
	if first == address6 {
		return []string{first, one(t, "second address", addresses[:3]...)}
	}
	return []string{first, address6}
}

func drawSlice(t *rapid.T, m model.Meta) *model.EndpointSlice {
	s := &model.EndpointSlice{Meta: m, Service: one(t, "service", services[m.Namespace]...)}
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(ports), 1, 2, rapid.ID).Draw(t, "ports") {
		s.Ports = append(s.Ports, model.SlicePort{Name: fmt.Sprint("p", n), Port: one[uint16](t, "port", 8080, 8081)})
	}
	for _, a := range rapid.Permutation(addresses).Draw(t, "addresses")[:one(t, "how many", 0, 1, 2, 2, 3)] {
		s.Hosts = append(s.Hosts, model.SliceHost{
			Address: a,
			Pod:     one(t, "pod", append(names, "", "", "")...),
			Health:  one(t, "health", model.Healthy, model.Healthy, model.Unhealthy, model.Draining, model.Ending),
			Zone:    one(t, "zone", "", "z1"),
			Node:    one(t, "node", "", "", "n1", "n2"),
			Hints:   one[model.Zones](t, "hints", "", "z1", "z1", "z1,z2", "z2"),

			Hostname: one(t, "host name", "", "", "a", "c"),
		})
	}
	s.Unready = one(t, "unready", nil, nil, names[:1], names[1:])
	return s
}
