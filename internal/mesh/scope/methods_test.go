package scope_test

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// sort says by what the answer of a method may differ between two classes in one snapshot.
type sort uint8

const (
	same     sort = iota // by nothing
	alike                // by what is in their SharingKey
	recorded             // by more, of which the ReadSet tells
	setup                // it answers nothing
)

// method is one of Scope: its sort, and a call that returns all that it answers.
type method struct {
	sort sort
	call func(*scope.Scope, *arguments) any
}

// arguments are what methods are asked about, as a snapshot has it. Objects that it does not have
// are nil.
type arguments struct {
	host                  model.Host
	port                  uint16
	address               string
	namespace             string
	credential            string
	uri                   string
	selector              model.Labels
	service               *model.Service
	routes                scope.RouteKind
	virtualService        *model.VirtualService
	gateway               *model.Gateway
	rule                  *model.DestinationRule
	authorizationPolicy   *model.AuthorizationPolicy
	peerAuthentication    *model.PeerAuthentication
	requestAuthentication *model.RequestAuthentication
}

func (a *arguments) server() *model.GatewayServer {
	if a.gateway == nil || len(a.gateway.Servers) == 0 {
		return nil
	}
	i := slices.IndexFunc(a.gateway.Servers, func(s model.GatewayServer) bool { return s.Forwards() })
	return &a.gateway.Servers[max(0, i)]
}

// ask calls what takes an object, if there is one.
func ask[T any](of *T, call func(*T) any) any {
	if of == nil {
		return nil
	}
	return call(of)
}

// both are two results.
func both(a, b any) any { return []any{a, b} }

func all[T any](list iter.Seq[T]) any { return slices.Collect(list) }

// methods are all methods of Scope. A new one has to be of one of the sorts.
var methods = map[string]method{
	"HasRoutesOf":     {same, func(s *scope.Scope, a *arguments) any { return s.HasRoutesOf(a.host) }},
	"Generation":      {same, func(s *scope.Scope, _ *arguments) any { return s.Generation() }},
	"Mesh":            {same, func(s *scope.Scope, _ *arguments) any { return s.Mesh() }},
	"HasEnvoyFilters": {same, func(s *scope.Scope, _ *arguments) any { return s.HasEnvoyFilters() }},
	"HasHost":         {same, func(s *scope.Scope, a *arguments) any { return s.HasHost(a.host) }},
	"TCPServicesOn": {same, func(s *scope.Scope, a *arguments) any {
		return all(s.TCPServicesOn(a.port))
	}},
	"TLSServicesOn": {same, func(s *scope.Scope, a *arguments) any {
		return all(s.TLSServicesOn(a.port))
	}},
	"ServicesByPortMatch": {same, func(s *scope.Scope, a *arguments) any {
		return all(s.ServicesByPortMatch(a.port, state.MatchPort))
	}},
	"VirtualServicesOf": {same, func(s *scope.Scope, a *arguments) any {
		return all(s.VirtualServicesOf(a.host))
	}},
	"BackendTLS": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.BackendTLS(svc) })
	}},
	"DestinationRulesWithAny": {same, func(s *scope.Scope, _ *arguments) any {
		return all(s.DestinationRulesWithAny())
	}},
	"GatewaysWith": {same, func(s *scope.Scope, a *arguments) any {
		return all(s.GatewaysWith(a.credential))
	}},
	"Endpoints": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.Endpoints(svc) })
	}},
	"ServicesOfPod": {same, func(s *scope.Scope, a *arguments) any {
		return s.ServicesOfPod(a.address, a.port)
	}},
	"Accounts": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.Accounts(svc) })
	}},
	"TCPServicesAfter": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return all(s.TCPServicesAfter(a.port, svc)) })
	}},
	"ServicesByPortMatchAfter": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any {
			return all(s.ServicesByPortMatchAfter(a.port, state.MatchPort, svc))
		})
	}},
	"VirtualServicesAt": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.gateway, func(g *model.Gateway) any {
			return all(s.VirtualServicesAt(g.Namespace + "/" + g.Name))
		})
	}},
	"Gateway": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.gateway, func(g *model.Gateway) any { return s.Gateway(g.Namespace + "/" + g.Name) })
	}},
	"HostsForwardedBy": {same, func(s *scope.Scope, a *arguments) any {
		return ask(a.server(), func(g *model.GatewayServer) any { return all(s.HostsForwardedBy(g)) })
	}},

	"Type":           {alike, func(s *scope.Scope, _ *arguments) any { return s.Type() }},
	"Settings":       {alike, func(s *scope.Scope, _ *arguments) any { return s.Settings() }},
	"Stated":         {alike, func(s *scope.Scope, _ *arguments) any { return s.Stated() }},
	"Headers":        {alike, func(s *scope.Scope, _ *arguments) any { return s.Headers() }},
	"Connections":    {alike, func(s *scope.Scope, _ *arguments) any { return s.Connections() }},
	"HTTPProxyPort":  {alike, func(s *scope.Scope, _ *arguments) any { return s.HTTPProxyPort() }},
	"Intercepts":     {alike, func(s *scope.Scope, _ *arguments) any { return s.Intercepts() }},
	"Outbound":       {alike, func(s *scope.Scope, _ *arguments) any { return s.Outbound() }},
	"TakesMeshTLS":   {alike, func(s *scope.Scope, _ *arguments) any { return s.TakesMeshTLS() }},
	"CallsInMeshTLS": {alike, func(s *scope.Scope, _ *arguments) any { return s.CallsInMeshTLS() }},
	"NamesHosts":     {alike, func(s *scope.Scope, _ *arguments) any { return s.NamesHosts() }},
	"ServicesAt": {alike, func(s *scope.Scope, a *arguments) any {
		return all(s.ServicesAt(a.address, a.port))
	}},
	"VIPs": {alike, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.VIPs(svc) })
	}},
	"HasVIP": {alike, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.HasVIP(svc) })
	}},
	"KeysFrom": {same, func(s *scope.Scope, a *arguments) any { return s.KeysFrom(a.uri) }},
	"PortMatch": {alike, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any {
			p, _ := svc.Port(a.port)
			return both(s.PortMatch(svc, p))
		})
	}},

	"Resolved": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.Resolved(svc) })
	}},
	"Service": {recorded, func(s *scope.Scope, a *arguments) any { return s.Service(a.host) }},
	"VirtualService": {recorded, func(s *scope.Scope, a *arguments) any {
		return s.VirtualService(a.host, a.port, a.routes)
	}},
	"Meets": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.virtualService, func(v *model.VirtualService) any {
			return s.Meets(v, scope.Condition{SourceLabels: a.selector}, scope.EntryPoint{Gateways: v.Gateways})
		})
	}},
	"Selected":        {recorded, func(s *scope.Scope, a *arguments) any { return s.Selected(a.selector) }},
	"IsOwn":           {recorded, func(s *scope.Scope, a *arguments) any { return s.IsOwn(a.namespace) }},
	"Namespace":       {recorded, func(s *scope.Scope, _ *arguments) any { return s.Namespace() }},
	"EgressListeners": {alike, func(s *scope.Scope, _ *arguments) any { return s.EgressListeners() }},
	"EgressPort":      {alike, func(s *scope.Scope, a *arguments) any { return s.EgressPort(a.port) }},
	"LimitsPorts":     {alike, func(s *scope.Scope, _ *arguments) any { return s.LimitsPorts() }},
	"Shows": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any {
			return both(s.Shows(nil, svc.Namespace, svc.Host), s.Shows(s.EgressPort(a.port), svc.Namespace, svc.Host))
		})
	}},
	"ShowsRoutes": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.virtualService, func(v *model.VirtualService) any {
			return both(s.ShowsRoutes(nil, v), s.ShowsRoutes(s.EgressPort(a.port), v))
		})
	}},
	"Sidecar":       {recorded, func(s *scope.Scope, _ *arguments) any { return s.Sidecar() }},
	"Inbound":       {recorded, func(s *scope.Scope, _ *arguments) any { return s.Inbound() }},
	"PortConflicts": {recorded, func(s *scope.Scope, _ *arguments) any { return s.PortConflicts() }},
	"PortServices":  {recorded, func(s *scope.Scope, _ *arguments) any { return s.PortServices() }},
	"InboundPool":   {recorded, func(s *scope.Scope, a *arguments) any { return s.InboundPool(a.port) }},
	"AddressOf": {recorded, func(s *scope.Scope, a *arguments) any {
		return s.AddressOf(&model.GatewayServer{Port: a.port})
	}},
	"ServersOn": {recorded, func(s *scope.Scope, a *arguments) any {
		return s.ServersOn(scope.Address{Port: a.port})
	}},
	"TLSHostsOn": {recorded, func(s *scope.Scope, a *arguments) any {
		return s.TLSHostsOn(scope.Address{Port: a.port})
	}},
	"Refuses":       {recorded, func(s *scope.Scope, a *arguments) any { return s.Refuses(a.port) }},
	"MTLSMode":      {recorded, func(s *scope.Scope, a *arguments) any { return s.MTLSMode(a.port) }},
	"MTLSPolicy":    {recorded, func(s *scope.Scope, a *arguments) any { return s.MTLSPolicy(a.port) }},
	"PortsWithMTLS": {recorded, func(s *scope.Scope, _ *arguments) any { return fmt.Sprint(s.PortsWithMTLS()) }},
	"AuthorizationPolicies": {recorded, func(s *scope.Scope, _ *arguments) any {
		return s.AuthorizationPolicies()
	}},
	"RequestAuthentications": {recorded, func(s *scope.Scope, _ *arguments) any {
		return s.RequestAuthentications()
	}},
	"Telemetries":  {recorded, func(s *scope.Scope, _ *arguments) any { return s.Telemetries() }},
	"EnvoyFilters": {recorded, func(s *scope.Scope, _ *arguments) any { return s.EnvoyFilters() }},
	"ProxyMatches": {recorded, func(s *scope.Scope, _ *arguments) any { return s.ProxyMatches() }},
	"Presents": {recorded, func(s *scope.Scope, _ *arguments) any {
		name, holds := s.Presents()
		return both(name, holds)
	}},
	"Gateways": {recorded, func(s *scope.Scope, _ *arguments) any { return all(s.Gateways()) }},
	"Uses":     {recorded, func(s *scope.Scope, a *arguments) any { return s.Uses(a.credential) }},
	"Certificate": {recorded, func(s *scope.Scope, a *arguments) any {
		return both(s.Certificate(a.credential))
	}},
	"Authorities": {recorded, func(s *scope.Scope, a *arguments) any {
		return both(s.Authorities(a.credential))
	}},
	"ForwardingServers": {recorded, func(s *scope.Scope, _ *arguments) any { return all(s.ForwardingServers()) }},
	"Forwarded":         {recorded, func(s *scope.Scope, a *arguments) any { return s.Forwarded(a.host) }},
	"Egress":            {recorded, func(s *scope.Scope, _ *arguments) any { return both(s.Egress()) }},
	"Hosts":             {recorded, func(s *scope.Scope, _ *arguments) any { return all(s.Hosts()) }},
	"DestinationRule": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.DestinationRule(svc) })
	}},
	"IsExported": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.service, func(svc *model.Service) any { return s.IsExported(svc.ExportTo, svc.Namespace) })
	}},
	"Applies": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.gateway, func(g *model.Gateway) any { return s.Applies(g) })
	}},
	"SecretProblem": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.server(), func(*model.GatewayServer) any { return both(s.SecretProblem(a.gateway, 0)) })
	}},
	"CredentialsProblem": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.server(), func(*model.GatewayServer) any { return both(s.CredentialsProblem(a.gateway, 0)) })
	}},
	"ForwardedBy": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.server(), func(g *model.GatewayServer) any {
			var found []*model.Service
			for host := range s.HostsForwardedBy(g) {
				found = append(found, s.ForwardedBy(g, host))
			}
			return found
		})
	}},
	"HasAuthorizationPolicy": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.authorizationPolicy, func(p *model.AuthorizationPolicy) any { return s.HasAuthorizationPolicy(p) })
	}},
	"HasPeerAuthentication": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.peerAuthentication, func(p *model.PeerAuthentication) any { return s.HasPeerAuthentication(p) })
	}},
	"HasRequestAuthentication": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.requestAuthentication, func(p *model.RequestAuthentication) any {
			return s.HasRequestAuthentication(p)
		})
	}},
	"UsesKeySet": {recorded, func(s *scope.Scope, a *arguments) any {
		return s.UsesKeySet(&model.KeySet{URI: a.uri})
	}},
	"MayUseCredentialsOf": {recorded, func(s *scope.Scope, a *arguments) any {
		return ask(a.rule, func(r *model.DestinationRule) any { return s.MayUseCredentialsOf(r) })
	}},
	"Secured": {recorded, func(s *scope.Scope, a *arguments) any {
		return s.Secured(&model.ClientTLS{Mode: model.Mutual, Credential: a.credential})
	}},

	"MoveTo": {sort: setup},
}

// Who adds a method says by what its answer may differ between classes, and the next test holds it
// to that.
func TestEveryMethodIsOneOfThree(t *testing.T) {
	typ := reflect.TypeFor[*scope.Scope]()
	var found []string
	for i := range typ.NumMethod() {
		found = append(found, typ.Method(i).Name)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(methods)), found)
	var fields []string
	for _, f := range reflect.VisibleFields(typ.Elem()) {
		if f.IsExported() {
			fields = append(fields, f.Name)
		}
	}
	require.ElementsMatch(t, []string{"Evaluations", "Cache", "Reads"}, fields, "only Scope reads snapshot and class")
}

// Two classes of which the ReadSet says that they are answered the same are answered the same, by
// each method.
func TestNoMethodReadsMoreThanItRecords(t *testing.T) {
	draws.AtLeast(t, 100)
	differ := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		snap, present := drawState(t)
		classifier := scope.NewClassifier()
		var classes []scope.Class
		for _, p := range proxies() {
			classes = append(classes, classifier.Classify(snap, p))
		}
		own := classes[0]
		own.Stated = &model.Stated{
			Headers: &model.ProxyHeaders{NoAttemptCount: true}, Connections: &model.ConnectionSettings{MaxStreams: 9},
		}
		classes = append(classes, own)
		for range 10 {
			requireRecorded(t, snap, classes, drawArguments(t, snap, present), differ)
		}
	})
	t.Log(differ)
	if testing.Short() {
		return // too few draws for each method to differ
	}
	for name, m := range methods {
		if m.sort != setup && m.sort != same && differ[name] == 0 {
			t.Errorf("%s never answered two classes differently", name)
		}
	}
}

// requireRecorded asks a class by each method, and compares all others with it. It notes the
// methods that differ.
func requireRecorded(t *rapid.T, snap *state.Snapshot, classes []scope.Class, about *arguments, differ map[string]int) {
	asked := rapid.IntRange(0, len(classes)-1).Draw(t, "class")
	for name, m := range methods {
		if m.sort == setup {
			continue
		}
		one := scope.New(snap, &classes[asked])
		one.Reads = scope.NewReadSet()
		answer := m.call(one, about)
		for i := range classes {
			other := scope.New(snap, &classes[i])
			if got := m.call(other, about); !reflect.DeepEqual(answer, got) {
				differ[name]++
				require.False(t, saysSame(m.sort, one, other), "%s: %v and %v", name, answer, got)
			}
		}
	}
}

// saysSame reports whether two scopes have to answer the same.
func saysSame(by sort, asked, other *scope.Scope) bool {
	a, b := scope.ViewKeyOf(asked, asked), scope.ViewKeyOf(other, other)
	switch by {
	case same:
		return true
	case alike:
		return a.SharingKey == b.SharingKey
	default:
		return a == b && asked.Reads.HoldsForViewKey() || a.SharingKey == b.SharingKey && asked.Reads.HoldsFor(other)
	}
}

func drawState(t *rapid.T) (*state.Snapshot, []model.Object) {
	h := meshlife.NewHistory()
	var present []model.Object
	writer := state.NewWriter()
	if rapid.Bool().Draw(t, "seldom") {
		writer.Apply(seldom())
	}
	for _, u := range h.Begin(t) {
		writer.Apply([]state.Update{{Key: u.Key, Objects: u.Objects}})
		present = append(present, u.Objects...)
	}
	return writer.Snapshot(), present
}

// seldom is what tells classes apart and is hardly ever drawn: all of it is for workloads of one
// namespace.
func seldom() objects {
	var o objects
	meta := func(kind kinds.Kind) model.Meta { return model.Meta{Kind: kind, Namespace: "shop", Name: "seldom"} }
	hidden := model.NewSensitive("text")
	inShop := model.Exports{Namespaces: []string{"shop"}}
	appA, appB := model.LabelsOf(map[string]string{"app": "a"}), model.LabelsOf(map[string]string{"app": "b"})

	o.service("shop", "seldom", inShop)
	o.add(meta(kinds.DestinationRule), &model.DestinationRule{
		Meta: meta(kinds.DestinationRule), Host: "seldom.shop.svc.cluster.local", Selector: appA, ExportTo: inShop,
		Policy: &model.TrafficPolicy{TLS: &model.ClientTLS{Mode: model.Simple, Credential: "seldom"}},
	})
	mesh := model.DefaultMesh()
	mesh.AutoTLS = true
	o.add(model.Meta{Kind: kinds.ConfigMap, Namespace: mesh.RootNamespace, Name: "istio"}, &mesh)
	for i, protocol := range []model.Protocol{model.HTTP, model.TCP} { // which contest a port
		m := model.Meta{Kind: kinds.Service, Namespace: "shop", Name: fmt.Sprint("conflict-", i)}
		o.add(m, &model.Service{
			Meta: m, Host: model.Resolve(m.Name, m.Namespace, "cluster.local"), ExportTo: inShop, Selector: appA,
			Ports: []model.ServicePort{{Name: "p", Port: 80, Protocol: protocol, Target: 9999}},
		})
	}
	o.add(meta(kinds.Gateway), &model.Gateway{Meta: meta(kinds.Gateway), Servers: []model.GatewayServer{
		{
			Port:     443,
			Protocol: model.HTTP,
			TLS:      &model.ServerTLS{Mode: model.ServerSimple, Credentials: []string{"seldom"}},
		},
		{
			Port: 15443, Protocol: model.TLS, TLS: &model.ServerTLS{Mode: model.ServerAutoPassthrough},
			Hosts: []model.ScopedHost{{Namespace: "*", Host: "*"}},
		},
	}})
	o.add(meta(kinds.Secret), &model.Credential{
		Meta: meta(kinds.Secret), Pair: &model.KeyPair{
			Chain: hidden, Key: hidden,
		}, Authorities: &model.Authorities{Certificates: hidden},
	})
	o.add(meta(kinds.AuthorizationPolicy), &model.AuthorizationPolicy{
		Meta: meta(kinds.AuthorizationPolicy), Selection: model.Selection{Selector: appA},
		Action: model.AuthorizationDeny,
	})
	o.add(meta(kinds.RequestAuthentication), &model.RequestAuthentication{
		Meta: meta(kinds.RequestAuthentication), Selection: model.Selection{Selector: appA}, Closed: true,
		Rules: []*model.TokenRule{{Issuer: "https://a.test", KeysFrom: "https://a.test/keys"}},
	})
	o.add(meta(kinds.Telemetry), &model.Telemetry{
		Meta: meta(kinds.Telemetry), Selection: model.Selection{Selector: appA},
	})
	o.add(meta(kinds.EnvoyFilter), &model.EnvoyFilter{
		Meta: meta(kinds.EnvoyFilter), Selection: model.Selection{Selector: appA},
		Patches: []*model.ConfigPatch{{Proxy: model.ProxyMatch{Version: `^1\.30`}}},
	})
	o.add(meta(kinds.Sidecar), &model.Sidecar{
		Meta: meta(kinds.Sidecar), Selector: appB, Outbound: &model.OutboundPolicy{RegistryOnly: true},
		Egress: []model.EgressListener{
			{Hosts: []model.ScopedHost{{Namespace: ".", Host: "*"}}},
			{Hosts: []model.ScopedHost{{Namespace: "default", Host: "*"}}, Port: 80, Requests: true},
		},
	})
	return o
}

var routeKinds = []scope.RouteKind{scope.HTTPRoutes, scope.TLSRoutes, scope.TCPRoutes}

func drawArguments(t *rapid.T, snap *state.Snapshot, present []model.Object) *arguments {
	a := &arguments{
		host: "a.default.svc.cluster.local", address: "127.0.0.1", credential: "a", uri: "https://a.test/keys",
		port:      rapid.SampledFrom([]uint16{80, 443, 8080, 9080}).Draw(t, "port"),
		namespace: rapid.SampledFrom([]string{"default", "shop", "istio-system"}).Draw(t, "namespace"),
		selector:  model.LabelsOf(map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")}),
		service:   drawn(t, slices.Collect(snap.Services())), gateway: drawn(t, slices.Collect(snap.Gateways())),
		routes:                rapid.SampledFrom(routeKinds).Draw(t, "routes"),
		virtualService:        drawn(t, slices.Collect(snap.VirtualServices())),
		rule:                  drawn(t, slices.Collect(snap.DestinationRulesWithAny())),
		authorizationPolicy:   drawn(t, kept[model.AuthorizationPolicy](present)),
		peerAuthentication:    drawn(t, kept[model.PeerAuthentication](present)),
		requestAuthentication: drawn(t, kept[model.RequestAuthentication](present)),
	}
	if g := drawn(t, slices.Collect(snap.ForwardingGateways())); g != nil && rapid.Bool().Draw(t, "forwards") {
		a.gateway = g
	}
	if a.service != nil {
		a.host = a.service.Host
		if len(a.service.Ports) > 0 {
			a.port = a.service.Ports[0].Port
		}
		if vips := append(a.service.VIPs(), snap.AutoAddresses(a.service)...); len(vips) > 0 {
			a.address = rapid.SampledFrom(vips).Draw(t, "address")
		}
	} else if v := drawn(t, slices.Collect(snap.VirtualServices())); v != nil {
		a.host = v.Hosts[0]
	}
	var credentials []string
	for _, g := range slices.Collect(snap.Gateways()) {
		credentials = append(credentials, g.Credentials()...)
	}
	for r := range snap.DestinationRulesWithAny() {
		credentials = append(credentials, r.Credentials()...)
	}
	if len(credentials) > 0 {
		a.credential = rapid.SampledFrom(credentials).Draw(t, "credential")
	}
	return a
}

// kept are the objects of one type.
func kept[T any](objects []model.Object) []*T {
	var found []*T
	for _, o := range objects {
		if of, is := any(o).(*T); is {
			found = append(found, of)
		}
	}
	return found
}

func drawn[T any](t *rapid.T, of []*T) *T {
	if len(of) == 0 {
		return nil
	}
	return rapid.SampledFrom(of).Draw(t, "object")
}

// proxies differ in one thing or another.
func proxies() []scope.Proxy {
	var list []scope.Proxy
	for _, namespace := range []string{"default", "shop", "istio-system"} {
		for _, labels := range []map[string]string{nil, {"app": "a", "version": "v1"}, {"app": "b", "version": "v2"}} {
			for _, settings := range []scope.Settings{
				{HTTPProxyPort: 15080, Credentials: scope.AllCredentials}, {},
				{Intercepted: true, Agent: true, Credentials: scope.OwnGatewayCredentials},
				{Intercepted: true, DNSCapture: true, Stack: model.DualStack, FiltersApart: true, IstioFilters: true,
					DynamicDNS: true},
			} {
				p := scope.Proxy{Namespace: namespace, Name: "a", Labels: model.LabelsOf(labels), Settings: settings}
				list = append(list, p)
				p.Type, p.Stating.Version = scope.Router, "1.30.1"
				list = append(list, p)
			}
		}
	}
	return list
}
