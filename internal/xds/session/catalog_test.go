package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// catalog is the names and contents of which a mesh is made. With few, what goes returns as it was;
// with more, more differs.
type catalog struct {
	clusters, listeners, tables, filters []string
	contents                             int
	own                                  bool
}

var catalogs = []catalog{
	{
		clusters: []string{"s1"}, listeners: []string{"l1", "l2"}, tables: []string{"r1", "r2"},
		filters: []string{"f1"}, contents: 1,
	},
	{
		clusters: []string{"e1", "e2", "e3", "e4", "s1", "d1"}, listeners: []string{"l1", "l2", "l3"},
		tables: []string{"r1", "r2", "r3"}, filters: []string{"f1", "f2"}, contents: 3, own: true,
	},
}

// change makes a new state: of the same class, or of another, which makes no difference to a
// session.
func (m *mesh) change() {
	m.generation++
	if !m.state.IsNone() && rapid.Bool().Draw(m.t, "a part") {
		m.changePart()
		return
	}
	m.state = resource.NewState(m.generation)
	var clusters, endpoints []*resource.Resource
	var names []string
	for _, name := range m.some(m.catalog.clusters...) {
		names = append(names, name)
		clusters = append(clusters, m.resource(envoymodel.Clusters, m.note(name)))
		endpoints = append(endpoints, m.endpoints(name)...)
	}
	if m.catalog.own && rapid.Bool().Draw(m.t, "own") {
		names = append(names, "o1")
		clusters = append(clusters, m.ownCluster("o1"))
		m.own.Pod = rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.2"}).Draw(m.t, "pod")
	}
	m.state = m.state.With(resource.Cluster, m.store.Build(clusters...))
	m.state = m.state.With(resource.Endpoint, m.store.Build(endpoints...))
	m.route(names)
}

// changePart changes what is of one kind. All else is the same, as it mostly is, and shared with
// the state before.
func (m *mesh) changePart() {
	names := m.state.Set(resource.Cluster).Names()
	slices.Sort(names)
	m.state = m.state.At(m.generation)
	switch rapid.IntRange(0, 3).Draw(m.t, "part") {
	case 0:
		var endpoints []*resource.Resource
		for _, name := range names {
			endpoints = append(endpoints, m.endpoints(name)...)
		}
		m.state = m.state.With(resource.Endpoint, m.store.Build(endpoints...))
	case 1:
		var clusters []*resource.Resource
		for _, name := range names {
			cluster := m.state.Set(resource.Cluster).Get(name)
			if !cluster.HasPlaceholders() && rapid.Bool().Draw(m.t, "another") {
				cluster = m.resource(envoymodel.Clusters, m.note(name))
			}
			clusters = append(clusters, cluster)
		}
		m.state = m.state.With(resource.Cluster, m.store.Build(clusters...))
	case 2:
		m.filter(m.state.Set(resource.Filter).Names())
	default:
		m.route(names)
	}
}

// endpoints are those of a cluster, none if it has none of its own.
func (m *mesh) endpoints(cluster string) []*resource.Resource {
	switch {
	case cluster[0] != 'e':
		return nil
	case m.collections > 0:
		return []*resource.Resource{m.assignment(cluster)}
	}
	n := rapid.IntRange(1, 3).Draw(m.t, "endpoints")
	return []*resource.Resource{m.resource(envoymodel.Endpoints, fmt.Sprintf("%s=%d,%d", m.note(cluster), n, 10+n))}
}

// filter gives the state filters of these names.
func (m *mesh) filter(names []string) {
	var filters []*resource.Resource
	for _, name := range slices.Sorted(slices.Values(names)) {
		filters = append(filters, m.resource(envoymodel.Filters, m.note(name)))
	}
	m.state = m.state.With(resource.Filter, m.store.Build(filters...))
}

// route gives the state listeners, tables and virtual hosts for the clusters, and the filters that
// the listeners name.
func (m *mesh) route(clusters []string) {
	listeners, routes, hosts := m.listeners(clusters)
	named := map[string]bool{}
	for _, l := range listeners {
		for _, name := range strings.Split(m.notes[l], "+")[1:] {
			named[name] = true
		}
	}
	m.filter(slices.Collect(maps.Keys(named)))
	m.state = m.state.With(resource.Listener, m.store.Build(listeners...))
	m.state = m.state.With(resource.Route, m.store.Build(routes...))
	m.state = m.state.With(resource.VirtualHost, m.store.Build(hosts...))
}

// listeners come with the tables that they need, and these with their virtual hosts.
func (m *mesh) listeners(clusters []string) (listeners, routes, hosts []*resource.Resource) {
	used := map[string]bool{}
	for _, name := range m.some(m.catalog.listeners...) {
		if len(clusters) > 0 && rapid.IntRange(0, 4).Draw(m.t, "TCP") == 0 {
			to := rapid.SampledFrom(clusters).Draw(m.t, "to")
			listeners = append(
				listeners,
				m.resource(envoymodel.Listeners, fmt.Sprintf("%s:%d>>%s", name, m.content(), to)),
			)
			continue
		}
		table := rapid.SampledFrom(m.catalog.tables).Draw(m.t, "route")
		note := m.note(name)
		if m.protocol == session.Delta && rapid.IntRange(0, 2).Draw(m.t, "a filter") == 0 {
			note += "F>" + table + "+" + rapid.SampledFrom(m.catalog.filters).Draw(m.t, "named")
		} else {
			note += ">" + table
		}
		listeners = append(listeners, m.resource(envoymodel.Listeners, note))
		if !used[table] {
			used[table] = true
			head, members := m.table(m.note(table), clusters)
			routes, hosts = append(routes, head), append(hosts, members...)
		}
	}
	return listeners, routes, hosts
}

func (m *mesh) some(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(string) bool {
		return rapid.IntRange(0, 2).Draw(m.t, "without") == 0
	})
}

func (m *mesh) content() int { return rapid.IntRange(1, m.catalog.contents).Draw(m.t, "version") }

// note is a resource's name and content in the notation of envoymodel, with what is wrong with it.
func (m *mesh) note(name string) string {
	flag := ""
	goodFor := 7 // each bad one
	if name[0] == 'f' {
		goodFor = 2 // few listeners name a filter, so that a rare bad one would hardly ever matter
	}
	if m.hostile && rapid.IntRange(0, goodFor).Draw(m.t, "bad") == 0 {
		flag = rapid.SampledFrom([]string{"X", "P", "U"}).Draw(m.t, "how")
	} else if name[0] == 'l' && rapid.IntRange(0, 3).Draw(m.t, "outside") == 0 {
		flag = "!"
	}
	return fmt.Sprintf("%s:%d%s", name, m.content(), flag)
}

func (m *mesh) resource(k envoymodel.Kind, note string) *resource.Resource {
	key := k.String() + " " + note
	if r := m.known[key]; r != nil {
		return r
	}
	described, err := envoymodel.ParseResource(k, note)
	if err != nil {
		m.t.Fatal(err)
	}
	r := resource.NewWith(described.Name, described.Body(), resource.Traits{Refs: m.refs(k, described.Targets)})
	m.known[key], m.notes[r] = r, note
	return r
}

// assignment has endpoints in one locality or two, of few that come and go.
func (m *mesh) assignment(name string) *resource.Resource {
	var groups []resource.Group
	var notes []string
	for zone := range rapid.IntRange(1, 2).Draw(m.t, "localities") {
		var members []*resource.Resource
		for port := 1; port <= 3; port++ {
			if note := m.note(fmt.Sprintf("m%d", 10*zone+port)); port == 1 || rapid.Bool().Draw(m.t, "there") {
				members = append(members, m.member(note))
				notes = append(notes, note)
			}
		}
		groups = append(groups, resource.Group{
			Head:    m.encode(&endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Zone: strconv.Itoa(zone)}}),
			Members: m.store.Build(members...),
		})
	}
	note := name + "=" + strings.Join(notes, ",")
	if m.known[note] == nil {
		m.known[note] = resource.NewAssignment(
			name,
			m.encode(&endpointv3.ClusterLoadAssignment{ClusterName: name}),
			groups,
		)
		m.notes[m.known[note]] = note
	}
	return m.known[note]
}

// member is one endpoint. What is wrong with it an Envoy can refuse: what would abort it does not
// get here.
func (m *mesh) member(note string) *resource.Resource {
	if r := m.known[note]; r != nil {
		return r
	}
	name, content, _ := strings.Cut(note, ":")
	port, _ := strconv.Atoi(name[1:])
	weight, _ := strconv.Atoi(content[:1])
	if strings.ContainsAny(note, "XP") {
		weight = 0
	}
	body := m.encode(&endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
			Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
			}},
		}}},
		LoadBalancingWeight: wrapperspb.UInt32(uint32(weight)),
	})
	if strings.Contains(note, "U") {
		body = append(body, 0xff)
	}
	m.known[note] = resource.New(name, body)
	return m.known[note]
}

func (m *mesh) refs(k envoymodel.Kind, targets []string) resource.Refs {
	var clusters, routes []string
	for _, to := range targets {
		switch {
		case k == envoymodel.Listeners && to[0] == 'f': // what it is without a filter, it is for good
		case k == envoymodel.Listeners && to[0] == 'r':
			routes = append(routes, to)
		default:
			clusters = append(clusters, to)
		}
	}
	return resource.Refs{Clusters: m.names.List(clusters), Routes: m.names.List(routes)}
}

// table has a virtual host for each of some clusters, and one for none. A table with an error has
// it in itself.
func (m *mesh) table(note string, clusters []string) (head *resource.Resource, hosts []*resource.Resource) {
	if strings.ContainsAny(note, "XPU") {
		return m.resource(envoymodel.Routes, note), nil
	}
	members := m.some(clusters...)
	if m.steady || rapid.Bool().Draw(m.t, "one that leads nowhere") {
		members = append(members, "none")
	}
	name, version, _ := strings.Cut(note, ":")
	if m.known["head "+note] == nil {
		m.known["head "+note] = resource.NewTableHead(name, m.encode(&routev3.RouteConfiguration{
			Name: name, ValidateClusters: wrapperspb.Bool(false), InternalOnlyHeaders: []string{"x-" + version},
		}))
		m.notes[m.known["head "+note]] = note
	}
	moving := map[string]string{} // domains that are now one's and now another's
	if len(members) > 0 {
		for _, d := range m.some("moves", "roams") {
			to := rapid.SampledFrom(members).Draw(m.t, d)
			moving[to] += "+" + d
		}
	}
	for _, member := range members {
		hosts = append(hosts, m.virtualHost(name, m.note(member)+moving[member]))
	}
	return m.known["head "+note], hosts
}

// virtualHost is one that leads to the cluster which it has its name of:
// NAME:CONTENT[FLAG][+DOMAIN]….
func (m *mesh) virtualHost(table, note string) *resource.Resource {
	key := table + "/" + note
	if r := m.known[key]; r != nil {
		return r
	}
	name, content, _ := strings.Cut(note, ":")
	domains := strings.Split(content, "+")
	domains[0] = name
	if strings.Contains(note, "X") {
		domains = append(domains, name) // twice
	}
	if strings.Contains(note, "P") {
		domains = nil
	}
	host := &routev3.VirtualHost{Domains: domains, Routes: []*routev3.Route{{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/" + content[:1]}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name},
		}},
	}}}
	refs := resource.Refs{}
	if name != "none" {
		refs = m.refs(envoymodel.Routes, []string{name})
	} else {
		answer := &routev3.DirectResponseAction{Status: 404}
		host.Routes[0].Action = &routev3.Route_DirectResponse{DirectResponse: answer}
	}
	body := m.encode(host)
	if strings.Contains(note, "U") {
		body = append(body, 0xff)
	}
	r := resource.NewVirtualHost(table, name, body, refs)
	m.known[key], m.notes[r] = r, key
	return r
}

func (m *mesh) encode(message proto.Message) []byte {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		m.t.Fatal(err)
	}
	return body
}

// ownCluster has the proxy's own address in it.
func (m *mesh) ownCluster(name string) *resource.Resource {
	if m.known[name] == nil {
		body := m.encode(&clusterv3.Cluster{
			Name: name, ConnectTimeout: durationpb.New(time.Second),
			UpstreamBindConfig: &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{
				Address: model.OwnPod, PortSpecifier: &corev3.SocketAddress_PortValue{},
			}},
		})
		m.known[name] = resource.NewWith(name, body, resource.Traits{Placeholders: true})
		m.notes[m.known[name]] = name + ":own"
	}
	return m.known[name]
}
