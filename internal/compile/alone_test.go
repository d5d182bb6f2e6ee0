package compile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// One part changes alone, of what no other input of the resource tells: the proxy has what
// compiling from nothing gives it. Random lives hardly ever bring these.
func TestOnePartAloneChanges(t *testing.T) {
	sidecar := scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080}}
	gateway := gatewayProxy()
	for name, c := range map[string]struct {
		proxy scope.Proxy
		lives [][]model.Object
	}{
		"the weight of an endpoint": {sidecar, [][]model.Object{
			endpointOfWeight(1), endpointOfWeight(7), endpointOfWeight(1),
		}},
		"the weight of an endpoint in a zone beside another": {
			sidecar, [][]model.Object{zoneOfWeight(1), zoneOfWeight(7), zoneOfWeight(1)},
		},
		"the weight of a TCP route's destination": {sidecar, [][]model.Object{
			weightedTo(50), weightedTo(70), weightedTo(50),
		}},
		"the port that callers mean, of a server that opens the same port of the workload": {
			gateway, [][]model.Object{servedAt(80), servedAt(81), servedAt(80)},
		},
		"the least version of TLS of a gateway's server": {gateway, [][]model.Object{
			servedOver(model.TLS12), servedOver(model.TLS13), servedOver(model.TLS12),
		}},
		"the name of a port, in a Service and in a route at once": {gateway, [][]model.Object{
			namedPort("a", time.Second), namedPort("b", time.Minute), namedPort("a", time.Second),
		}},
		"the subnets of a TCP route of a gateway": {gateway, [][]model.Object{
			boundFor("10.0.0.0/8"), boundFor("10.1.0.0/16"), boundFor("10.0.0.0/8"),
		}},
		"how long connections of a gateway may be idle": {
			gateway,
			[][]model.Object{
				calledByTCP(idleFor(time.Minute)), calledByTCP(idleFor(time.Hour)), calledByTCP(idleFor(time.Minute)),
			},
		},
		"how long connections of a gateway may last": {
			gateway,
			[][]model.Object{
				calledByTCP(lastsFor(time.Minute)), calledByTCP(lastsFor(time.Hour)),
				calledByTCP(lastsFor(time.Minute)),
			},
		},
		"by what connections of a gateway choose an endpoint": {
			gateway,
			[][]model.Object{calledByTCP(bySource(false)), calledByTCP(bySource(true)), calledByTCP(bySource(false))},
		},
		"where connections of a gateway go through a proxy": {
			gateway,
			[][]model.Object{
				calledByTCP(through("a.test", false)), calledByTCP(through("b.test", false)),
				calledByTCP(through("a.test", false)),
			},
		},
		"how a proxy of a gateway is asked": {
			gateway,
			[][]model.Object{
				calledByTCP(through("a.test", false)), calledByTCP(through("a.test", true)),
				calledByTCP(through("a.test", false)),
			},
		},
		"a tunnel that cannot be read": {
			gateway,
			[][]model.Object{
				calledByTCP(through("a.test", false)), calledByTCP(model.TrafficPolicy{Tunnel: &model.Tunnel{}}),
				calledByTCP(model.TrafficPolicy{}),
			},
		},
		"the address of a Sidecar's port": {
			sidecar, [][]model.Object{boundTo("127.0.0.2"), boundTo("127.0.0.3"), boundTo("127.0.0.2")},
		},
		"the authorities that a destination is checked by": {
			gateway,
			[][]model.Object{calledWith(nil), calledWith(&model.Authorities{
				Certificates: model.NewSensitive("ca"),
			}), calledWith(nil)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			requireFollows(t, c.proxy, c.lives)
		})
	}
}

// requireFollows requires that each life shows, and that the proxy has then what compiling from
// nothing gives it.
func requireFollows(t *testing.T, p scope.Proxy, lives [][]model.Object) {
	t.Helper()
	var updates [][]state.Update
	for _, objects := range lives {
		updates = append(updates, updatesOf(objects))
	}
	requireFollowsUpdates(t, p, updates)
}

func requireFollowsUpdates(t *testing.T, p scope.Proxy, lives [][]state.Update) {
	t.Helper()
	w, stepped := state.NewWriter(), placeIn(t, state.NewWriter().Snapshot(), p)
	var before map[string]resource.Version
	for _, updates := range lives {
		_, d := w.Apply(updates)
		stepped.comp.Advance(d, func(s Step) {
			for _, changed := range s.Changed {
				stepped.state = changed.State
			}
			for _, m := range s.Moved { // from a class that may have changed too
				stepped.state = m.State
			}
		})
		now := dump(placeIn(t, w.Snapshot(), p).state)
		require.NotEqual(t, before, now, "the change shows")
		require.Equal(t, now, dump(stepped.state))
		before = now
	}
}

// One part changes alone, of what Istio's filters show of the service of a workload's port. Random
// lives hardly ever bring these.
func TestOnePartOfAShownServiceChanges(t *testing.T) {
	type shown struct {
		name string
		host model.Host
		port uint16
	}
	labels := model.LabelsOf(map[string]string{"app": "p"})
	p := scope.Proxy{Namespace: "default", Name: "p", Labels: labels, Settings: scope.Settings{
		Intercepted: true, IstioFilters: true,
	}}
	of := func(s shown) *model.Service {
		svc := aloneService(s.name, model.ServicePort{Port: 80, Protocol: model.HTTP, Target: s.port})
		svc.Host, svc.Selector = s.host, labels
		return svc
	}
	was := shown{"a", "a.default.svc.cluster.local", 8080}
	for name, is := range map[string]shown{
		"its name": {"b", was.host, was.port},
		"its host": {was.name, "b.default.svc.cluster.local", was.port},
		"its port": {was.name, was.host, 8081},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := of(was), of(is)
			replace := func(old, now *model.Service) []state.Update {
				updates := []state.Update{{Key: now.Key(), Objects: []model.Object{now}}}
				if old.Key() != now.Key() {
					updates = append(updates, state.Update{Key: old.Key()})
				}
				return updates
			}
			requireFollowsUpdates(t, p, [][]state.Update{replace(from, from), replace(from, to), replace(to, from)})
		})
	}
}

// One part of a conflict changes alone: what is told is what is so, though the proxy gets the same.
// Random lives hardly ever bring these.
func TestOnePartOfAClashChanges(t *testing.T) {
	type claim struct {
		kind kinds.Kind
		name string
		port model.ServicePort
	}
	claims := func(target uint16) [2]claim {
		return [2]claim{
			{kinds.Service, "a", model.ServicePort{Port: 80, Protocol: model.HTTP, Target: target}},
			{kinds.ServiceEntry, "b", model.ServicePort{Port: 90, Protocol: model.TCP, Target: target}},
		}
	}
	labels := model.LabelsOf(map[string]string{"app": "p"})
	update := func(c claim, gone bool) state.Update {
		s := aloneService(c.name, c.port)
		s.Kind, s.Selector = c.kind, labels
		if gone {
			return state.Update{Key: s.Key()}
		}
		return state.Update{Key: s.Key(), Objects: []model.Object{s}}
	}
	for name, change := range map[string]func(first, next *claim){
		"the first":               func(first, _ *claim) { first.name = "aa" },
		"its port":                func(first, _ *claim) { first.port.Port = 81 },
		"its protocol":            func(first, _ *claim) { first.port.Protocol = model.GRPC },
		"the next":                func(_, next *claim) { next.name = "bb" },
		"its kind":                func(_, next *claim) { next.kind = kinds.Service },
		"the first one's kind":    func(first, _ *claim) { first.kind = kinds.ServiceEntry },
		"its port, as the next":   func(_, next *claim) { next.port.Port = 91 },
		"its protocol likewise":   func(_, next *claim) { next.port.Protocol = model.TLS },
		"the port that they mean": func(first, next *claim) { first.port.Target, next.port.Target = 8081, 8081 },
	} {
		t.Run(name, func(t *testing.T) {
			was, is := claims(8080), claims(8080)
			change(&is[0], &is[1])
			w := state.NewWriter()
			w.Apply([]state.Update{update(was[0], false), update(was[1], false)})
			p := scope.Proxy{Namespace: "default", Name: "p", Labels: labels}
			stepped := placeIn(t, w.Snapshot(), p)
			before := stepped.comp.problems()
			require.Len(t, before, 1)
			_, d := w.Apply([]state.Update{
				update(was[0], true), update(was[1], true), update(is[0], false), update(is[1], false),
			})
			stepped.comp.Advance(d, func(Step) {})
			require.NotEqual(t, before, stepped.comp.problems())
			require.Equal(t, placeIn(t, w.Snapshot(), p).comp.problems(), stepped.comp.problems())
		})
	}
}

// Two ServiceEntries of one host may come to the same assignment, also if one of them prefers what
// is close. When a workload of one comes, only those classes follow that see this one.
func TestEqualAssignmentsOfTwoServices(t *testing.T) {
	labels := model.LabelsOf(map[string]string{"app": "a"})
	entry := func(namespace string, prefers model.TrafficDistribution) state.Update {
		s := &model.Service{
			Meta:         model.Meta{Kind: kinds.ServiceEntry, Namespace: namespace, Name: "e"},
			Host:         "a.example.com",
			ExportTo:     model.Exports{Own: true},
			Ports:        []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP, Target: 80}},
			Selector:     labels,
			Distribution: prefers,
		}
		return state.Update{Key: s.Key(), Objects: []model.Object{s}}
	}
	for _, prefers := range []model.TrafficDistribution{model.DistributeAny, model.PreferZone} {
		m := &meshOf{writer: state.NewWriter(), compiler: NewCompiler(Refusals{})}
		m.apply(entry("ns1", prefers), entry("ns2", model.DistributeAny))
		placed := map[string]Placement{}
		for _, namespace := range []string{"ns1", "ns2"} {
			m.compiler.Join(Facts{Proxy: scope.Proxy{
				Namespace: namespace,
				Name:      "p",
				Settings:  scope.Settings{HTTPProxyPort: 15080},
			}}, func(_ *Member, p Placement) {
				placed[namespace] = p
			})
		}
		assignment := func(s resource.State) *resource.Resource {
			return s.Set(resource.Endpoint).Get("outbound|80||a.example.com")
		}
		require.Same(t, assignment(placed["ns1"].State), assignment(placed["ns2"].State))
		pod := &model.Workload{Meta: model.Meta{
			Kind:      kinds.Pod,
			Namespace: "ns2",
			Name:      "a",
		}, Addresses: []string{"127.1.0.1"}, Labels: labels}
		m.apply(state.Update{Key: pod.Key(), Objects: []model.Object{pod}})
		require.Len(t, m.last.Changed, 1)
		require.Equal(t, placed["ns2"].Class, m.last.Changed[0].Class)
		require.NotEqual(t, assignment(placed["ns1"].State).Version(), assignment(m.last.Changed[0].State).Version())
	}
}

// Two slices of a service list one endpoint, and the first by name counts. So a slice that goes and
// comes under another name, with all that it says, changes what is known of the endpoint. Random
// lives hardly ever bring this.
func TestTheNameOfASliceCounts(t *testing.T) {
	service := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	slice := func(name, zone string) state.Update {
		s := &model.EndpointSlice{Meta: aloneMeta(kinds.EndpointSlice, name), Service: "a", Ports: []model.SlicePort{{
			Name: "http",
			Port: 8080,
		}}}
		s.Hosts = []model.SliceHost{{Address: "127.1.0.1", Zone: zone}}
		return state.Update{Key: s.Key(), Objects: []model.Object{s}}
	}
	sidecar := scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080}}
	m := &meshOf{writer: state.NewWriter(), compiler: NewCompiler(refuseNothing(t))}
	m.apply(append(updatesOf([]model.Object{service}), slice("b", "z1"), slice("c", "z2"))...)
	var first Placement
	m.compiler.Join(Facts{Proxy: sidecar}, func(_ *Member, p Placement) { first = p })

	m.apply(state.Update{Key: slice("b", "").Key}, slice("d", "z1"))
	require.Len(t, m.last.Changed, 1)
	renamed := m.last.Changed[0].State
	require.NotEqual(t, dump(first.State), dump(renamed))
	require.Equal(t, dump(placeIn(t, m.writer.Snapshot(), sidecar).state), dump(renamed))

	m.apply(state.Update{Key: slice("c", "").Key}, slice("e", "z2"))
	require.Len(t, m.last.Changed, 1)
	require.Equal(t, dump(first.State), dump(m.last.Changed[0].State))
}

var (
	everywhere    = model.Exports{All: true}
	gatewayLabels = model.LabelsOf(map[string]string{"app": "gw", model.GatewayNameLabel: "gw"})
)

func aloneMeta(kind kinds.Kind, name string) model.Meta {
	return model.Meta{Kind: kind, Namespace: "default", Name: name}
}

func aloneService(name string, ports ...model.ServicePort) *model.Service {
	s := &model.Service{Meta: aloneMeta(kinds.Service, name), ExportTo: everywhere, Ports: ports}
	s.Host = model.Resolve(name, "default", "cluster.local")
	return s
}

// aloneGateway is a Gateway with a server for any host, and a VirtualService for a.com that is
// bound to it.
func aloneGateway(port uint16, protocol model.Protocol) (*model.Gateway, *model.VirtualService) {
	g := &model.Gateway{Meta: aloneMeta(kinds.Gateway, "gw"), Selector: gatewayLabels}
	g.Servers = []model.GatewayServer{{Port: port, Protocol: protocol, Hosts: []model.ScopedHost{{
		Namespace: "*",
		Host:      "a.com",
	}}}}
	return g, &model.VirtualService{
		Meta:     aloneMeta(kinds.VirtualService, "v"),
		ExportTo: everywhere,
		Hosts:    []model.Host{"a.com"},
		Gateways: []string{"default/gw"},
	}
}

func endpointOfWeight(weight uint32) []model.Object {
	s := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	s.Kind, s.Host = kinds.ServiceEntry, "a.example.com"
	s.Endpoints = []model.Endpoint{{Address: "127.1.0.1", Port: 80, PortName: "http", Weight: weight}}
	return []model.Object{s}
}

// zoneOfWeight gives zones the weights of their endpoints, of which one has such an endpoint: the
// rule is for callers elsewhere.
func zoneOfWeight(weight uint32) []model.Object {
	objects := endpointOfWeight(weight)
	s := objects[0].(*model.Service)
	s.Endpoints[0].Locality = model.Locality{Region: "r", Zone: "a"}
	s.Endpoints = append(s.Endpoints, model.Endpoint{
		Address: "127.1.0.2", Port: 80, PortName: "http", Weight: 10, Locality: model.Locality{Region: "r", Zone: "b"},
	})
	r := &model.DestinationRule{Meta: aloneMeta(kinds.DestinationRule, "r"), ExportTo: everywhere, Host: s.Host}
	r.Policy = &model.TrafficPolicy{LB: &model.LoadBalancer{Locality: &model.LocalityLB{Distribute: []model.Distribute{{
		From: model.LocalityPattern{Region: "q"},
		To:   []model.LocalityShare{{To: model.LocalityPattern{Region: "r"}, Percent: 100}},
	}}}}}
	return append(objects, r)
}

func weightedTo(first uint32) []model.Object {
	a := aloneService("a", model.ServicePort{Name: "db", Port: 3306, Protocol: model.TCP})
	b := aloneService("b", model.ServicePort{Name: "db", Port: 3306, Protocol: model.TCP})
	v := &model.VirtualService{
		Meta:     aloneMeta(kinds.VirtualService, "a"),
		ExportTo: everywhere,
		Hosts:    []model.Host{a.Host},
		Gateways: []string{model.Mesh},
	}
	v.TCP = []*model.TCPRoute{{Destinations: []model.Destination{{Host: a.Host, Weight: first}, {
		Host:   b.Host,
		Weight: 50,
	}}}}
	return []model.Object{a, b, v}
}

func servedAt(port uint16) []model.Object {
	s := aloneService("gw", model.ServicePort{
		Name:     "a",
		Port:     80,
		Target:   8080,
		Protocol: model.HTTP,
	}, model.ServicePort{Name: "b", Port: 81, Target: 8080, Protocol: model.HTTP})
	s.Selector = gatewayLabels
	g, v := aloneGateway(port, model.HTTP)
	v.HTTP = []*model.HTTPRoute{{Redirect: &model.Redirect{Authority: "b.com", PortFromRequest: true}}}
	return []model.Object{s, g, v}
}

// namedPort has a route that gives its destination's port by name. The timeout shows the change: a
// name alone does not.
func namedPort(name string, timeout time.Duration) []model.Object {
	s := aloneService("a", model.ServicePort{Name: name, Port: 8080, Protocol: model.HTTP})
	g, v := aloneGateway(80, model.HTTP)
	v.HTTP = []*model.HTTPRoute{{
		Destinations: []model.Destination{{Host: s.Host, PortName: name}}, Timeout: timeout,
	}}
	return []model.Object{s, g, v}
}

func boundFor(subnet string) []model.Object {
	g, v := aloneGateway(3306, model.TCP)
	v.TCP = []*model.TCPRoute{{Matches: []*model.L4Match{{
		DestinationSubnets: []string{subnet},
	}}, Destinations: []model.Destination{{Host: "a.com"}}}}
	return []model.Object{g, v}
}

// servedOver is a server of a gateway with a certificate from a file.
func servedOver(least model.TLSVersion) []model.Object {
	g, v := aloneGateway(443, model.HTTP)
	files := []model.CertificateFiles{{Chain: "/etc/chain.pem", Key: "/etc/key.pem"}}
	g.Servers[0].TLS = &model.ServerTLS{Mode: model.ServerSimple, Files: files, MinVersion: least}
	return []model.Object{g, v}
}

// calledByTCP is a TCP route of a gateway, to a service with this policy.
func calledByTCP(policy model.TrafficPolicy) []model.Object {
	s := aloneService("a", model.ServicePort{Name: "db", Port: 3306, Protocol: model.TCP})
	g, v := aloneGateway(3306, model.TCP)
	v.TCP = []*model.TCPRoute{{Destinations: []model.Destination{{Host: s.Host}}}}
	r := &model.DestinationRule{
		Meta:     aloneMeta(kinds.DestinationRule, "r"),
		ExportTo: everywhere,
		Host:     s.Host,
		Policy:   &policy,
	}
	return []model.Object{s, g, v, r}
}

func idleFor(d time.Duration) model.TrafficPolicy {
	return model.TrafficPolicy{Pool: &model.ConnectionPool{TCPIdleTimeout: d}}
}

func lastsFor(d time.Duration) model.TrafficPolicy {
	return model.TrafficPolicy{Pool: &model.ConnectionPool{MaxConnectionDuration: d}}
}

func bySource(yes bool) model.TrafficPolicy {
	return model.TrafficPolicy{LB: &model.LoadBalancer{Hash: &model.HashPolicy{SourceIP: yes}}}
}

func through(target string, post bool) model.TrafficPolicy {
	return model.TrafficPolicy{Tunnel: &model.Tunnel{Host: target, Port: 443, Post: post}}
}

func boundTo(address string) []model.Object {
	s := &model.Sidecar{Meta: aloneMeta(kinds.Sidecar, "s")}
	s.Ingress = []model.IngressListener{{Port: 9080, Protocol: model.HTTP, EndpointPort: 9080, Bind: address}}
	return []model.Object{s}
}

func calledWith(authorities *model.Authorities) []model.Object {
	s := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	g, v := aloneGateway(80, model.HTTP)
	v.HTTP = []*model.HTTPRoute{{Destinations: []model.Destination{{Host: s.Host}}}}
	r := &model.DestinationRule{Meta: aloneMeta(kinds.DestinationRule, "r"), ExportTo: everywhere, Host: s.Host}
	r.Policy = &model.TrafficPolicy{TLS: &model.ClientTLS{Mode: model.Simple, Credential: "c"}}
	return []model.Object{
		s, g, v, r, gatewayPod(), &model.Credential{Meta: aloneMeta(kinds.Secret, "c"), Authorities: authorities},
	}
}

// gatewayProxy is a gateway that has proved to be gatewayPod.
func gatewayProxy() scope.Proxy {
	return scope.Proxy{
		Type: scope.Router, Namespace: "default", Name: "gw", Labels: gatewayLabels,
		Settings: scope.Settings{Credentials: scope.AllCredentials},
	}
}

func gatewayPod() *model.Workload {
	return &model.Workload{
		Meta: aloneMeta(kinds.Pod, "gw"), Labels: gatewayLabels, ServiceAccount: "gw-istio", Gateway: true,
	}
}

// placed is a proxy with a compiler of its own.
type placed struct {
	comp  *Compiler
	state resource.State
}

func placeIn(t *testing.T, snap *state.Snapshot, p scope.Proxy) *placed {
	found := &placed{comp: NewCompiler(refuseNothing(t))}
	found.comp.snapshot = snap
	facts := Facts{Proxy: p, Account: gatewayPod().ServiceAccount}
	found.comp.Join(facts, func(_ *Member, at Placement) { found.state = at.State })
	return found
}

func updatesOf(objects []model.Object) []state.Update {
	var list []state.Update
	for _, o := range objects {
		m := o.(interface{ Key() source.Key })
		list = append(list, state.Update{Key: m.Key(), Objects: []model.Object{o}})
	}
	return list
}
