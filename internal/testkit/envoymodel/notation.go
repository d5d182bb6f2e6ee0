package envoymodel

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Resource is a resource in the notation of scripts:
//
//	NAME:CONTENT[/VERSION][FLAGS][=HOSTS|=DOMAINS|>TARGETS|>>CLUSTER]
//
// The first letter of the name says more about its kind: e is a cluster with endpoints of its own,
// s one with a fixed host, d one whose host comes from DNS, l a listener, r routes, f a filter of
// requests. HOSTS are the
// ports of endpoints (e1:1=1,2), TARGETS of endpoints the collections that have them (e1:1>c1),
// with members c1/m1:1=1, of a listener the name of its routes, and of filters if it names any
// (l1:1>r1, l1:1>r1+f1), and of routes the clusters
// that they name (r1:1>e1+s1); >> makes a listener a TCP proxy to a cluster. A virtual host is
// r1/v1:1=1,2 with the numbers of its domains; without any its domain is its name. The version is
// what stands behind the name, unless VERSION says else: the same CONTENT under another VERSION is
// a change of nothing.
type Resource struct {
	Note    string
	Kind    Kind
	Name    string
	Version string
	Targets []string // of a listener and of routes

	content int
	flags   string
	hosts   []int
	tcp     bool
}

// Flags of the notation.
const (
	flagTimed       = '~' // what it waits for times out after FetchTimeout; else never
	flagWrong       = 'X' // Envoy refuses it when it looks at what it means
	flagInvalid     = 'P' // it breaks a rule of protoc-gen-validate
	flagUndecodable = 'U' // its bytes are no message
	flagHead        = '@' // routes: their virtual hosts come by VHDS, besides one for everything if there are TARGETS
	flagOtherName   = 'N' // a virtual host has no table's name in its body
	flagOutside     = '!' // a listener: CONTENT changes what stands outside its filter chains, too
	flagTimedFilter = 'F' // a listener: it does without a filter that does not come within FetchTimeout
)

// FetchTimeout is the initial_fetch_timeout of resources with the flag ~.
const FetchTimeout = 2 * time.Second

var notation = regexp.MustCompile(`^([a-z]\d+(?:/[a-z]\d+)?):(\d+)(?:/(\w+))?([~XPU!@NF]*)(?:(=|>>|>)(.*))?$`)

// ParseResource reads the notation.
func ParseResource(k Kind, note string) (Resource, error) {
	m := notation.FindStringSubmatch(note)
	if m == nil {
		return Resource{}, fmt.Errorf("resource %q: want NAME:CONTENT[/VERSION][FLAGS][=HOSTS|>TARGETS|>>CLUSTER]",
			note)
	}
	r := Resource{Note: note, Kind: k, Name: m[1], Version: m[3], flags: m[4], tcp: m[5] == ">>"}
	r.content, _ = strconv.Atoi(m[2])
	if r.Version == "" {
		r.Version = strings.TrimPrefix(note, r.Name+":")
	}
	if m[5] != "=" && m[6] != "" {
		r.Targets = strings.Split(m[6], "+")
	}
	if m[5] == "=" && m[6] != "" {
		for p := range strings.SplitSeq(m[6], ",") {
			port, err := strconv.Atoi(p)
			if err != nil {
				return Resource{}, fmt.Errorf("resource %q: %q is no port", note, p)
			}
			r.hosts = append(r.hosts, port)
		}
	}
	return r, nil
}

func (r Resource) has(flag rune) bool { return strings.ContainsRune(r.flags, flag) }

// Body is the encoded message.
func (r Resource) Body() []byte {
	if r.has(flagUndecodable) {
		return []byte{0xff}
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.message())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", r.Note, err)) // small messages of fixed form always encode
	}
	return body
}

func (r Resource) message() proto.Message {
	switch r.Kind {
	case Clusters:
		return r.cluster()
	case Endpoints:
		return r.assignment()
	case Listeners:
		return r.listener()
	case Members:
		return r.member()
	case VirtualHosts:
		return r.virtualHost()
	case Filters:
		return r.namedFilter()
	default:
		return r.routes()
	}
}

func (r Resource) cluster() proto.Message {
	c := &clusterv3.Cluster{
		Name: r.Name, ConnectTimeout: durationpb.New(time.Second),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(uint32(1000 + r.content)),
	}
	if r.Name[0] == 'e' {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: r.source()}
	} else {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.LoadAssignment = Resource{Kind: Endpoints, Name: r.Name, hosts: []int{9}}.list()
		if r.Name[0] == 'd' {
			c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
			c.DnsLookupFamily = clusterv3.Cluster_V4_ONLY
			c.LoadAssignment.Endpoints[0].LbEndpoints[0] = endpoint("localhost", 9)
		}
	}
	if r.has(flagWrong) {
		c.TransportSocket = &corev3.TransportSocket{Name: "there.is.none"}
	}
	if r.has(flagInvalid) {
		c.ConnectTimeout = durationpb.New(-time.Second)
	}
	return c
}

// source is ADS, with a fetch that never times out unless the resource is timed.
func (r Resource) source() *corev3.ConfigSource {
	s := &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(0),
	}
	if r.has(flagTimed) {
		s.InitialFetchTimeout = durationpb.New(FetchTimeout)
	}
	return s
}

func (r Resource) assignment() proto.Message {
	if len(r.Targets) > 0 {
		return r.inCollections()
	}
	return r.list()
}

func locality(zone string) *corev3.Locality { return &corev3.Locality{Zone: zone} }

func (r Resource) list() *endpointv3.ClusterLoadAssignment {
	group := &endpointv3.LocalityLbEndpoints{}
	for _, port := range r.hosts {
		group.LbEndpoints = append(group.LbEndpoints, endpoint("127.0.0.1", port))
	}
	if r.has(flagWrong) {
		group.LbEndpoints = append(group.LbEndpoints, endpoint("not-an-address", 1))
	}
	if r.has(flagInvalid) {
		bad := endpoint("127.0.0.1", 1)
		bad.LoadBalancingWeight = wrapperspb.UInt32(0)
		group.LbEndpoints = append(group.LbEndpoints, bad)
	}
	a := &endpointv3.ClusterLoadAssignment{ClusterName: r.Name}
	if len(group.LbEndpoints) > 0 {
		a.Endpoints = []*endpointv3.LocalityLbEndpoints{group}
	}
	return a
}

func endpoint(address string, port int) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
		Address: socket(address, port),
	}}}
}

func socket(address string, port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// listener does not bind its port, so that many Envoys can have it at once.
func (r Resource) listener() proto.Message {
	number, _ := strconv.Atoi(r.Name[1:])
	l := &listenerv3.Listener{
		Name: r.Name, Address: socket("127.0.0.1", 10000+number), BindToPort: wrapperspb.Bool(false),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{r.filter()}}},
	}
	if r.has(flagOutside) {
		l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(uint32(1000 + r.content))
	}
	if r.has(flagInvalid) {
		l.SocketOptions = []*corev3.SocketOption{{Value: nil}} // the value is required
	}
	return l
}

func (r Resource) filter() *listenerv3.Filter {
	prefix := fmt.Sprintf("p%d", r.content)
	if r.tcp {
		return &listenerv3.Filter{Name: "tcp", ConfigType: typed(&tcpv3.TcpProxy{
			StatPrefix: prefix, ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: r.Targets[0]},
		})}
	}
	h := &hcmv3.HttpConnectionManager{
		StatPrefix: prefix,
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&routerv3.Router{})},
		}},
	}
	for i := len(r.Targets) - 1; i > 0; i-- {
		h.HttpFilters = slices.Insert(h.HttpFilters, 0, r.discovered(r.Targets[i]))
	}
	if r.has(flagWrong) {
		h.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: wrongRoutes("inline")}
	} else {
		h.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: r.Targets[0], ConfigSource: r.source(),
		}}
	}
	return &listenerv3.Filter{Name: "http", ConfigType: typed(h)}
}

func typed(m proto.Message) *listenerv3.Filter_TypedConfig {
	return &listenerv3.Filter_TypedConfig{TypedConfig: pack(m)}
}

func pack(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", m, err)) // as in Body
	}
	return a
}

func (r Resource) routes() proto.Message {
	if r.has(flagWrong) {
		return wrongRoutes(r.Name)
	}
	v := &routev3.VirtualHost{Name: fmt.Sprintf("v%d", r.content), Domains: []string{"*"}}
	if r.has(flagInvalid) {
		v.Name = "" // a name is required
	}
	for _, cluster := range r.Targets {
		v.Routes = append(v.Routes, route("/"+cluster, cluster))
	}
	table := &routev3.RouteConfiguration{Name: r.Name, ValidateClusters: wrapperspb.Bool(false)}
	if r.has(flagHead) {
		table.InternalOnlyHeaders = []string{fmt.Sprintf("x-%d", r.content)}
		table.Vhds = &routev3.Vhds{ConfigSource: r.source()}
	}
	if !r.has(flagHead) || len(r.Targets) > 0 || r.has(flagInvalid) {
		table.VirtualHosts = []*routev3.VirtualHost{v}
	}
	return table
}

func route(prefix, cluster string) *routev3.Route {
	return &routev3.Route{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		}},
	}
}

// virtualHost has its content in the path that it matches.
func (r Resource) virtualHost() proto.Message {
	_, rest := splitHost(r.Name)
	v := &routev3.VirtualHost{Name: r.Name, Routes: []*routev3.Route{route(fmt.Sprintf("/%d", r.content), "s1")}}
	if r.has(flagOtherName) {
		v.Name = rest
	}
	for _, d := range r.hosts {
		v.Domains = append(v.Domains, fmt.Sprintf("d%d", d))
	}
	if len(v.Domains) == 0 {
		v.Domains = []string{rest}
	}
	if r.has(flagInvalid) {
		v.Domains = nil // one at least
	}
	if r.has(flagWrong) {
		v.Domains = append(v.Domains, v.Domains[0])
	}
	return v
}

// wrongRoutes has two virtual hosts for everything.
func wrongRoutes(name string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{
		{Name: "a", Domains: []string{"*"}}, {Name: "b", Domains: []string{"*"}},
	}}
}
