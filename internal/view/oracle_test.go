package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/world"
)

// Few names make collisions, re-creations and shadowing likely.
var (
	drawNamespace = rapid.SampledFrom([]string{"default", "shop", "istio-system"})
	drawName      = rapid.SampledFrom([]string{"a", "b", "c"})
	drawLabels    = rapid.SampledFrom([]model.Labels{{}, model.LabelsOf(map[string]string{"app": "a"}), model.LabelsOf(map[string]string{"version": "v1"}), model.LabelsOf(map[string]string{"app": "b", "version": "v2"})})
	drawPort      = rapid.SampledFrom([]uint16{80, 9080, 3306})
	drawExports   = rapid.SampledFrom([]model.Exports{{All: true}, {All: true}, {Own: true}, {None: true}, {Namespaces: []string{"shop"}}})
	drawHost      = rapid.SampledFrom([]model.Host{
		"a.default.svc.cluster.local", "b.default.svc.cluster.local", "a.shop.svc.cluster.local", "c.shop.svc.cluster.local",
		"*.shop.svc.cluster.local", "*", "a", "a.default", "ext.example.com", "*.example.com",
	})
	drawGateways = rapid.SampledFrom([][]string{{model.Mesh}, {model.Mesh}, {"istio-system/a"}, {model.Mesh, "shop/b"}})
)

func meta(t *rapid.T, k source.Kind) model.Meta {
	return model.Meta{Kind: k, Namespace: drawNamespace.Draw(t, "ns"), Name: drawName.Draw(t, "name")}
}

func drawService(t *rapid.T) model.Object {
	s := &model.Service{Meta: meta(t, source.Service), ExportTo: drawExports.Draw(t, "export"), Selector: drawLabels.Draw(t, "selector")}
	s.Host = model.Resolve(s.Name, s.Namespace, "cluster.local")
	s.Ports = drawPorts(t)
	if rapid.IntRange(0, 3).Draw(t, "headless") == 0 {
		s.Headless, s.Resolution = true, model.Passthrough
	}
	return s
}

func drawPorts(t *rapid.T) []model.ServicePort {
	var ports []model.ServicePort
	for _, n := range rapid.SliceOfNDistinct(drawPort, 1, 2, rapid.ID).Draw(t, "ports") {
		p := rapid.SampledFrom([]model.Protocol{model.Auto, model.HTTP, model.TCP, model.TLS, model.UDP}).Draw(t, "protocol")
		port := model.ServicePort{Name: fmt.Sprint("p", n), Port: n, Protocol: p, Target: n + 1}
		if rapid.Bool().Draw(t, "named") {
			port.Target, port.TargetName = 0, "web"
		}
		ports = append(ports, port)
	}
	return ports
}

func drawEntry(t *rapid.T) model.Object {
	s := &model.Service{Meta: meta(t, source.ServiceEntry), ExportTo: drawExports.Draw(t, "export"), External: true}
	s.Host = drawHost.Draw(t, "host")
	s.Resolution = rapid.SampledFrom([]model.Resolution{model.EDS, model.StrictDNS, model.Passthrough}).Draw(t, "resolution")
	s.Ports = drawPorts(t)
	if s.Resolution == model.EDS {
		s.Selector = drawLabels.Draw(t, "selector")
	}
	if s.Selector.IsEmpty() && rapid.Bool().Draw(t, "listed") {
		for _, p := range s.Ports {
			address := rapid.SampledFrom([]string{"127.9.0.1", "127.9.0.2"}).Draw(t, "address")
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: address, Port: 80, PortName: p.Name, Labels: drawLabels.Draw(t, "labels")})
		}
	}
	return s
}

func drawDestinations(t *rapid.T) []model.Destination {
	var ds []model.Destination
	for range rapid.IntRange(1, 2).Draw(t, "destinations") {
		ds = append(ds, model.Destination{
			Host: drawHost.Draw(t, "to"), Port: rapid.SampledFrom([]uint16{0, 80, 9080}).Draw(t, "port"), Weight: 50,
			Subset: rapid.SampledFrom([]string{"", "v1"}).Draw(t, "subset"),
		})
	}
	return ds
}

func drawVirtualService(t *rapid.T) model.Object {
	v := &model.VirtualService{Meta: meta(t, source.VirtualService), ExportTo: drawExports.Draw(t, "export"), Gateways: drawGateways.Draw(t, "gateways")}
	v.Hosts = rapid.SliceOfNDistinct(drawHost, 1, 2, rapid.ID).Draw(t, "hosts")
	for range rapid.IntRange(0, 2).Draw(t, "http") {
		r := &model.HTTPRoute{Destinations: drawDestinations(t)}
		if rapid.Bool().Draw(t, "matched") {
			r.Matches = []*model.HTTPMatch{{
				URI: &model.StringMatch{Kind: model.Prefix, Value: "/x"}, SourceLabels: drawLabels.Draw(t, "source"),
				Port: rapid.SampledFrom([]uint16{0, 0, 9080}).Draw(t, "at port"), Gateways: rapid.SampledFrom([][]string{nil, nil, {"istio-system/a"}}).Draw(t, "at gateways"),
				SourceNamespace: rapid.SampledFrom([]string{"", "", "shop"}).Draw(t, "from namespace"),
			}}
		}
		v.HTTP = append(v.HTTP, r)
	}
	if rapid.Bool().Draw(t, "tcp") {
		v.TCP = []*model.TCPRoute{{Destinations: drawDestinations(t), Matches: []*model.L4Match{{SourceLabels: drawLabels.Draw(t, "source")}}}}
		v.TLS = []*model.TLSRoute{{Destinations: drawDestinations(t), Matches: []*model.L4Match{{SNIHosts: []model.Host{v.Hosts[0]}}}}}
	}
	return v
}

func drawDestinationRule(t *rapid.T) model.Object {
	hash := &model.TrafficPolicy{LB: &model.LoadBalancer{Kind: model.RingHash, Hash: &model.HashPolicy{Header: "x-user"}}}
	source4 := &model.TrafficPolicy{LB: &model.LoadBalancer{Kind: model.Maglev, Hash: &model.HashPolicy{SourceIP: true}}, Pool: &model.ConnectionPool{TCPIdleTimeout: 5e9}}
	ports := &model.TrafficPolicy{LB: hash.LB, Ports: []model.PortPolicy{{Port: 80, Policy: source4}, {Port: 9080, Policy: &model.TrafficPolicy{}}}}
	policies := rapid.SampledFrom([]*model.TrafficPolicy{nil, hash, source4, ports, {TLS: &model.ClientTLS{Mode: model.Unusable}}})
	r := &model.DestinationRule{
		Meta: meta(t, source.DestinationRule), Host: drawHost.Draw(t, "host"), Policy: policies.Draw(t, "policy"), ExportTo: drawExports.Draw(t, "export"),
		Selector: drawLabels.Draw(t, "selector"),
	}
	for _, name := range rapid.SampledFrom([][]string{nil, {"v1"}, {"v1"}, {"v1", "v2"}}).Draw(t, "subsets") {
		r.Subsets = append(r.Subsets, model.Subset{Name: name, Labels: drawLabels.Draw(t, "subset labels"), Policy: policies.Draw(t, "subset policy")})
	}
	return r
}

func drawScoped(t *rapid.T) []model.ScopedHost {
	var hosts []model.ScopedHost
	for range rapid.IntRange(1, 2).Draw(t, "scoped") {
		hosts = append(hosts, model.ScopedHost{Namespace: rapid.SampledFrom([]string{"*", ".", "default", "shop"}).Draw(t, "ns"), Host: drawHost.Draw(t, "host")})
	}
	return hosts
}

func drawSidecar(t *rapid.T) model.Object {
	s := &model.Sidecar{Meta: meta(t, source.Sidecar), Selector: drawLabels.Draw(t, "selector")}
	if rapid.Bool().Draw(t, "egress") {
		s.Egress = []model.EgressListener{{Hosts: drawScoped(t)}}
	}
	if rapid.Bool().Draw(t, "policy") {
		s.Outbound = &model.OutboundPolicy{RegistryOnly: true}
	}
	switch rapid.IntRange(0, 5).Draw(t, "ingress") {
	case 0:
		s.IngressClosed = true
	case 1:
		s.Ingress = []model.IngressListener{{Name: "in", Port: drawPort.Draw(t, "port"), Protocol: model.HTTP, EndpointAddress: model.OwnApp, EndpointPort: 7000}}
	}
	return s
}

func drawGateway(t *rapid.T) model.Object {
	g := &model.Gateway{Meta: meta(t, source.Gateway), Selector: drawLabels.Draw(t, "selector")}
	for range rapid.IntRange(1, 2).Draw(t, "servers") {
		g.Servers = append(g.Servers, model.GatewayServer{
			Port: drawPort.Draw(t, "port"), Protocol: model.HTTP, Hosts: drawScoped(t), Redirect: rapid.Bool().Draw(t, "redirect"),
			Broken: rapid.SampledFrom([]string{"", "", "bad"}).Draw(t, "broken"),
		})
	}
	return g
}

func drawWorkload(t *rapid.T) model.Object {
	w := &model.Workload{Meta: meta(t, source.Pod), Labels: drawLabels.Draw(t, "labels")}
	w.Addresses = []string{rapid.SampledFrom([]string{"127.1.0.1", "127.1.0.2", "127.1.0.3"}).Draw(t, "address")}
	w.Ports = rapid.SampledFrom([][]model.WorkloadPort{nil, {{Name: "web", Port: 8080}}, {{Name: "web", Port: 8081}}}).Draw(t, "container ports")
	w.OwnApp = rapid.SampledFrom([]string{"", "127.2.0.1"}).Draw(t, "own app")
	w.Locality.Zone = rapid.SampledFrom([]string{"", "z1"}).Draw(t, "zone")
	return w
}

func drawWorldNamespace(t *rapid.T) model.Object {
	m := model.Meta{Kind: source.Namespace, Name: drawNamespace.Draw(t, "name")}
	return &model.Namespace{Meta: m, Labels: drawLabels.Draw(t, "labels")}
}

func drawMesh(t *rapid.T) model.Object {
	m := model.DefaultMesh()
	m.RootNamespace = rapid.SampledFrom([]string{"istio-system", "shop"}).Draw(t, "root")
	m.Outbound.RegistryOnly = rapid.Bool().Draw(t, "registry only")
	m.ProxyHTTPPort = rapid.SampledFrom([]uint16{0, 15081}).Draw(t, "proxy port")
	return &m
}

func drawSlice(t *rapid.T) model.Object {
	s := &model.EndpointSlice{Meta: meta(t, source.EndpointSlice), Service: drawName.Draw(t, "service")}
	s.Ports = []model.SlicePort{{Name: fmt.Sprint("p", drawPort.Draw(t, "port")), Port: 8080}}
	for _, pod := range rapid.SliceOfNDistinct(drawName, 0, 3, rapid.ID).Draw(t, "pods") {
		h := model.SliceHost{Address: rapid.SampledFrom([]string{"127.1.0.1", "127.1.0.2", "127.1.0.3"}).Draw(t, "address"), Pod: pod}
		h.Health = rapid.SampledFrom([]model.Health{model.Healthy, model.Draining}).Draw(t, "health")
		s.Hosts = append(s.Hosts, h)
	}
	return s
}

var drawObject = map[source.Kind]func(*rapid.T) model.Object{
	source.Service: drawService, source.ServiceEntry: drawEntry, source.VirtualService: drawVirtualService,
	source.DestinationRule: drawDestinationRule, source.Sidecar: drawSidecar, source.Gateway: drawGateway, source.Pod: drawWorkload,
	source.EndpointSlice: drawSlice, source.Namespace: drawWorldNamespace, source.ConfigMap: drawMesh,
}

func drawUpdates(t *rapid.T) []world.Update {
	var updates []world.Update
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		kind := rapid.SampledFrom(slices.Sorted(maps.Keys(drawObject))).Draw(t, "kind")
		o := drawObject[kind](t)
		m := metaOfObject(o)
		u := world.Update{Key: m.Key()}
		if rapid.IntRange(0, 3).Draw(t, "delete") > 0 {
			u.Objects = []model.Object{o}
		}
		updates = append(updates, u)
	}
	return updates
}

func metaOfObject(o model.Object) *model.Meta {
	switch o := o.(type) {
	case *model.Service:
		return &o.Meta
	case *model.VirtualService:
		return &o.Meta
	case *model.DestinationRule:
		return &o.Meta
	case *model.Sidecar:
		return &o.Meta
	case *model.Gateway:
		return &o.Meta
	case *model.Workload:
		return &o.Meta
	case *model.EndpointSlice:
		return &o.Meta
	case *model.Namespace:
		return &o.Meta
	case *model.MeshConfig:
		return &model.Meta{Kind: source.ConfigMap, Namespace: "istio-system", Name: "istio"}
	}
	return nil
}

func oracleProxies() []Facts {
	labels := model.LabelsOf(map[string]string{"app": "a", "version": "v1"})
	return []Facts{
		{Address: "127.5.0.1", Proxy: scope.Proxy{Namespace: "default", Name: "a", Labels: labels, Settings: scope.Settings{HTTPProxyPort: 15080}}},
		{Address: "127.5.0.2", Proxy: scope.Proxy{Namespace: "shop", Name: "b", Settings: scope.Settings{HTTPProxyPort: 9080}}},
		{Address: "127.5.0.3", Proxy: scope.Proxy{Namespace: "shop", Name: "none", Labels: model.LabelsOf(map[string]string{"app": "b", "version": "v2"}), Settings: scope.Settings{HTTPProxyPort: 15080}}},
		{Address: "127.5.0.4", Proxy: scope.Proxy{Type: scope.Router, Namespace: "istio-system", Name: "gw", Labels: labels}},
		{Address: "127.5.0.5", Proxy: scope.Proxy{Namespace: "default", Name: "b", Settings: scope.Settings{HTTPProxyPort: 15080}}},
		{Address: "127.5.0.6", Proxy: scope.Proxy{Type: scope.Router, Namespace: "shop", Name: "c", Settings: scope.Settings{HTTP10: true}}},
		{Address: "127.5.0.7", Proxy: scope.Proxy{Namespace: "default", Name: "c"}},
	}
}

func dump(s *State) map[string]Version {
	out := map[string]Version{}
	for t, set := range s.Sets {
		for r := range set.All() {
			out[Type(t).String()+" "+r.name] = r.version
			if r.vhosts != nil {
				for v := range r.vhosts.All() {
					out["vhost "+r.name+" "+v.name] = v.version
				}
			}
		}
	}
	return out
}

// fromNothing is the world that has the present objects, in whatever order they came.
func fromNothing(t *rapid.T, present map[source.Key]world.Update) *world.World {
	keys := slices.SortedFunc(maps.Keys(present), source.Key.Compare)
	w := world.NewWriter()
	for _, k := range rapid.Permutation(keys).Draw(t, "order") {
		w.Apply([]world.Update{present[k]})
	}
	return w.World()
}

// Whatever changes came in whatever steps, each proxy has what compiling the final world from nothing gives it.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	refused := Refusals{
		Endpoint: func(e model.Endpoint, err error) { t.Errorf("endpoint %v: %v", e, err) },
		Resource: func(name string, err error) { t.Errorf("%s: %v", name, err) },
	}
	rapid.Check(t, func(t *rapid.T) {
		w := world.NewWriter()
		c := NewCompiler(refused)
		placed := map[*Member]Placement{}
		present := map[source.Key]world.Update{}
		comeAndGo := func() {
			for _, f := range rapid.SliceOfN(rapid.SampledFrom(oracleProxies()), 0, 3).Draw(t, "coming") {
				c.Join(f, func(m *Member, p Placement) { placed[m] = p })
			}
			for _, m := range slices.SortedFunc(maps.Keys(placed), func(a, b *Member) int { return cmp.Compare(a.facts.Address, b.facts.Address) }) {
				if rapid.IntRange(0, 4).Draw(t, "goes") == 0 {
					c.Leave(m)
					delete(placed, m)
				}
			}
		}
		for _, f := range oracleProxies() {
			c.Join(f, func(m *Member, p Placement) { placed[m] = p })
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "come and go") == 0 {
				comeAndGo()
			}
			updates := drawUpdates(t)
			for _, u := range updates {
				present[u.Key] = u
			}
			_, d := w.Apply(updates)
			if d.IsEmpty() {
				continue
			}
			c.Advance(d, func(s Step) {
				for _, m := range s.Moved {
					placed[m.Member] = m.Placement
				}
				for _, changed := range s.Changed {
					for m, p := range placed {
						if p.Class == changed.Class {
							p.State = changed.State
							placed[m] = p
						}
					}
				}
			})
			fresh := NewCompiler(refused)
			fresh.world = fromNothing(t, present)
			for m, p := range placed {
				requireAcceptable(t, p.State)
				fresh.Join(m.facts, func(_ *Member, want Placement) {
					require.Equal(t, dump(want.State), dump(p.State), "proxy %s in %s", m.facts.Proxy.Name, m.facts.Proxy.Namespace)
					require.Equal(t, want.Own, p.Own)
				})
			}
			require.Equal(t, fresh.conflicts(), c.conflicts())
		}
	})
}

// requireAcceptable checks what Envoy would refuse a whole response for: a domain that stands twice in a route table, and
// addresses that were not filled in.
func requireAcceptable(t *rapid.T, s *State) {
	for r := range s.Sets[Route].All() {
		rc := &routev3.RouteConfiguration{}
		require.NoError(t, proto.Unmarshal(r.Body(), rc))
		seen := map[string]string{}
		for _, v := range rc.GetVirtualHosts() {
			for _, d := range v.GetDomains() {
				require.NotContains(t, seen, d, "%s and %s of %s", seen[d], v.GetName(), r.Name())
				seen[d] = v.GetName()
			}
		}
	}
	own := Own{Pod: "127.5.0.1", App: "127.6.0.1", Outbound: "127.7.0.1"}
	for _, typ := range []Type{Cluster, Listener} {
		for r := range s.Sets[typ].All() {
			body := string(own.Body(typ, r))
			for _, placeholder := range []string{model.OwnPod, model.OwnApp, model.OwnOutbound} {
				require.NotContains(t, body, placeholder, "%s %s", typ, r.Name())
			}
		}
	}
}
